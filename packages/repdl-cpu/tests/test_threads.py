"""In-place steps and shared work with many threads: every element is stepped once, by somebody.

A part that overlaps another, or leaves something out, changes parameters that the contract does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import repdl
import repdl_cpu
from repdl.backend import get_backend
from repdl.registry import OPS, implementations
from repdl.testing import assert_same_bits, uniform
from repdl.testing.steps import step_arguments

LISTS = [[60_000], [115_000], [9000, 0, 1, 50_001, 12_288], [300] * 90]
"""Elements of the tensors of a step: parts for seven threads in one tensor, across many, and in stretches."""


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = repdl.config.state.threads
    yield
    repdl.config.state.threads = before


def arguments(op: str, counts: list[int], dtype: torch.dtype) -> tuple[Any, ...]:
    total = sum(counts)
    return step_arguments(op, lambda i: [t.clone() for t in uniform(i, total).abs().to(dtype).split(counts)])


def stepped(backend: str, op: str, counts: list[int], dtype: torch.dtype) -> list[torch.Tensor]:
    given = arguments(op, counts, dtype)
    implementations(get_backend(backend))[op](*given)
    return [torch.cat(list(tensors)) for tensors in given if isinstance(tensors, list)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("op", [op.name for op in OPS.values() if op.mutates])
def test_threads__step(op: str, dtype: torch.dtype) -> None:
    for counts in LISTS:
        expected = stepped("reference", op, counts, dtype)
        for isa in {repdl_cpu.get_isa(), "baseline"}:
            with repdl_cpu.use_isa(isa):
                for threads in (1, 7, 16):
                    repdl.set_num_threads(threads)
                    what = f"{op} of {sum(counts)} in {len(counts)} on {isa} with {threads} threads"
                    assert_same_bits(stepped("cpu", op, counts, dtype), expected, what)


def test_threads__step_again_and_again() -> None:
    """What the pool's threads race for: the same step twenty times."""
    repdl.set_num_threads(7)
    expected = stepped("cpu", "adam_step", LISTS[0], torch.float32)
    for _ in range(20):
        assert_same_bits(stepped("cpu", "adam_step", LISTS[0], torch.float32), expected)


@pytest.mark.parametrize("threads", [2, 3, 7, 16])
def test_threads__parts_of_every_length(threads: int) -> None:
    """Copies of n elements, n around what is worth a thread: nothing is left out."""
    repdl.set_num_threads(threads)
    table = implementations(get_backend("cpu"))
    for n in [k * (1 << 12) + d for k in (1, 2, 3, 7, 8) for d in (-1, 0, 1)]:
        x = uniform(1, n)
        assert_same_bits(table["neg"](table["neg"](x)), x, f"{n} elements")
        assert_same_bits(table["cast"](table["cast"](x, torch.float64), torch.float32), x, f"{n} elements, cast")
