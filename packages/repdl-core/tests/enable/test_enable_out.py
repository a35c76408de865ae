"""`out=` while `repdl.enable()` holds: the bits of the plain form, the first time and when the call is repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import repdl
from repdl.testing import assert_same_bits, uniform

needs_kernels = pytest.mark.skipif(not hasattr(torch.library, "get_kernel"), reason="needs torch 2.13")
pytestmark = needs_kernels
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a number": (torch.mul, (0.5,)),
    "a tensor": (torch.add, (uniform(1, 6, 8),)),
    "a row": (torch.sub, (uniform(2, 8),)),
    "one operand": (torch.exp, ()),
    "a product": (torch.mm, (uniform(3, 8, 8),)),
    "a sum": (torch.sum, (1,)),
    "two numbers": (torch.clamp, (-0.25, 0.25)),
}


@pytest.mark.parametrize("name", CALLS)
def test_out__bits_of_the_plain_form(name: str) -> None:
    function, others = CALLS[name]
    with repdl.enabled():
        for i in range(4):
            x = uniform(10 + i, 6, 8)
            expected = function(x, *others)
            out = torch.full_like(expected, torch.nan)
            version = out._version
            assert function(x, *others, out=out) is out
            assert_same_bits(out, expected, f"{name}, call {i}")
            assert out._version > version


def test_out__numbers_of_later_calls() -> None:
    x, out = uniform(1, 100), torch.empty(100)
    with repdl.enabled():
        for factor in (0.5, 0.25, 3, -1.0, 0.1, 7.5):
            assert_same_bits(torch.mul(x, factor, out=out), x * factor)


@pytest.mark.parametrize("layout", ["transposed", "every second", "wider dtype", "half", "too small", "scalar"])
def test_out__other_memory_than_the_result_has(layout: str) -> None:
    a, b = uniform(1, 6, 8), uniform(2, 6, 8)
    made: dict[str, Callable[[], torch.Tensor]] = {
        "transposed": lambda: torch.empty(8, 6).t(),
        "every second": lambda: torch.empty(6, 16)[:, ::2],
        "wider dtype": lambda: torch.empty(6, 8, dtype=torch.float64),
        "half": lambda: torch.empty(6, 8, dtype=torch.bfloat16),
        "too small": lambda: torch.empty(0),
        "scalar": lambda: torch.empty(0, 5),
    }
    with repdl.enabled():
        expected = a + b
        for _ in range(3):
            out = made[layout]()
            torch.add(a, b, out=out)
            assert out.shape == (6, 8)
            assert_same_bits(out, expected.to(out.dtype), layout)


def test_out__is_an_operand_or_overlaps_one() -> None:
    with repdl.enabled():
        for _ in range(3):
            memory = uniform(1, 20)
            expected = memory[:16] + memory[4:]
            torch.add(memory[:16], memory[4:], out=memory[4:])
            assert_same_bits(memory[4:], expected)
            expected = memory * memory
            torch.mul(memory, memory, out=memory)
            assert_same_bits(memory, expected)


def test_out__integers_booleans_and_what_is_refused() -> None:
    with repdl.enabled():
        for _ in range(3):
            out = torch.empty(3, dtype=torch.int64)
            assert torch.add(torch.arange(3), torch.arange(3), out=out).tolist() == [0, 2, 4]
            with pytest.raises(RuntimeError, match="can't be cast"):
                torch.add(torch.ones(3), torch.ones(3), out=out)
            leaf = torch.ones(3, requires_grad=True)
            with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
                torch.mul(leaf, 2.0, out=torch.empty(3))
            with torch.no_grad():
                assert torch.mul(leaf, 2.0, out=torch.empty(3)).tolist() == [2, 2, 2]
            with torch.inference_mode():
                assert torch.mul(torch.ones(3), 2.0, out=torch.empty(3)).tolist() == [2, 2, 2]
            with pytest.raises(repdl.UnsupportedError, match="share memory"):
                torch.mul(torch.ones(3), 2.0, out=torch.empty(1).expand(3))
