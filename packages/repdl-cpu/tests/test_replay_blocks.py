"""Chains of pointwise ops that run block by block have the bits of the same ops on whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

import repdl
from repdl.callcache import blocks, cache_blocks, call as call_of_cache
from repdl.registry import functions as ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.dtypes import in_dtype

Tensor = torch.Tensor
ALONE = blocks._ALONE
LENGTHS = [2 * ALONE - 1, 2 * ALONE, 2 * ALONE + 1, 3 * ALONE - 1, 5 * ALONE + 17]
"""One block and less, two, and a last one of one element, of all but one, of some."""


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = repdl.get_num_threads()
    yield
    repdl.set_num_threads(before)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each recording has, times its kernels."""
    found: list[int] = []

    def plan(*args: Any) -> Any:
        made = blocks.plan_blocks(*args)
        found.append(len(made.steps))
        return made

    monkeypatch.setattr(call_of_cache, "plan_blocks", plan)
    return found


def gelu(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Formulas of a model: a power, whose kernel takes another layout, and a result that later ops take."""
    cube = ops.mul(ops.pow(x, 3.0), c, "v1")
    inner = ops.tanh(ops.mul(ops.add(x, cube, "v1"), c, "v1"))
    return ops.mul(ops.mul(x, c, "v1"), ops.add(inner, c, "v1"), "v1"), inner


def powers(x: Tensor, c: Tensor) -> Tensor:
    """Kernels that may not write where an argument is, one after the other."""
    return ops.pow(ops.abs(ops.pow(ops.pow(x, 2.0), 3.0)), 0.5)


def forks(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values that several ops take, some of them last where they are written, and one that nothing takes."""
    a, b = ops.sub(x, c, "v1"), ops.exp(x)
    ops.mul(a, b, "v1")
    d = ops.add(ops.mul(a, a, "v1"), ops.mul(b, a, "v1"), "v1")
    return ops.div(d, b, "v1"), a, ops.neg(ops.mul(d, d, "v1"))


CHAINS: dict[str, Callable[..., Any]] = {"gelu": gelu, "powers": powers, "forks": forks}


def outputs(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def check(function: Callable[..., Any], *args: Any) -> None:
    expected, cached = outputs(function(*args)), cache_blocks(function)
    for _ in range(3):
        assert_same_bits(outputs(cached(*args)), expected)
    assert cached.recordings == 1


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", LENGTHS)
def test_blocks__bits(name: str, dtype: torch.dtype, length: int, planned: list[int]) -> None:
    repdl.set_num_threads(1)
    x, c = (in_dtype(t, dtype) for t in (uniform(1, length, special=True), torch.tensor(0.7)))
    check(CHAINS[name], x, c)
    kernels = planned[0] // -(-length // ALONE) if planned else 0
    assert (kernels > 3 and planned == [kernels * -(-length // ALONE)]) if length >= 2 * ALONE else not planned


@pytest.mark.parametrize("name", CHAINS)
def test_blocks__other_values_and_shapes(name: str, planned: list[int]) -> None:
    """A recording is repeated on other tensors; several dimensions are elements in a row."""
    repdl.set_num_threads(1)
    cached = cache_blocks(CHAINS[name])
    for seed in range(4):
        x, c = uniform(seed, 3, ALONE, 2), torch.tensor(0.3 + seed)
        result = outputs(cached(x, c))
        assert_same_bits(result, outputs(CHAINS[name](x, c)))
        assert all(t.shape == x.shape and t.is_contiguous() for t in result)
    assert cached.recordings == 1 and len(planned) == 1


@pytest.mark.parametrize("threads", [2, 3])
def test_blocks__threads(threads: int, planned: list[int]) -> None:
    repdl.set_num_threads(threads)
    check(gelu, uniform(1, 3 * threads * blocks._OF_THREADS + 5), torch.tensor(0.7))
    assert planned == [8 * 4]


def test_blocks__long_tensors_have_larger_ones(planned: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_MOST_STEPS", 100)
    repdl.set_num_threads(1)
    check(gelu, uniform(1, 30 * ALONE + 3), torch.tensor(0.7))
    assert 80 < planned[0] <= 108


OTHERS: dict[str, Callable[..., Any]] = {
    "a sum": lambda x, c: ops.mul(x, ops.sum(x, [0], False, "v1"), "v1"),
    "softmax": lambda x, c: ops.mul(ops.softmax(x, 0, "v1"), c, "v1"),
    "an argument as a result": lambda x, c: (ops.mul(x, c, "v1"), x),
    "one result twice": lambda x, c: (ops.mul(x, c, "v1"),) * 2,
    "torch's ops": lambda x, c: ops.mul(x * 2, c, "v1"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_blocks__other_calls_are_not(name: str) -> None:
    x, c = uniform(1, 4, ALONE).view(-1), torch.tensor(0.7)
    cached = cache_blocks(OTHERS[name])
    for _ in range(3):
        assert_same_bits(outputs(cached(x, c)), outputs(OTHERS[name](x, c)))


@pytest.mark.parametrize("kind", ["strided", "broadcast", "of two shapes", "with gradients"])
def test_blocks__other_tensors_are_not(kind: str, planned: list[int]) -> None:
    x, c = uniform(1, 4, ALONE), torch.tensor(0.7)
    x = {"strided": x.t(), "with gradients": x.clone().requires_grad_()}.get(kind, x)
    c = {"broadcast": uniform(2, ALONE), "of two shapes": uniform(2, 4, 1)}.get(kind, c)
    cached = cache_blocks(gelu)
    for _ in range(3):
        assert_same_bits([t.detach() for t in cached(x, c)], [t.detach() for t in gelu(x, c)])
    assert not planned


UNARY = ("exp", "tanh", "neg", "abs", "sigmoid", "relu")
BINARY = ("add", "sub", "mul", "div", "maximum")


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Ops and the numbers of what they take: 0 and 1 are the inputs, then the results in order."""
    count = draw(st.integers(2, 14))
    return [
        (draw(st.sampled_from(UNARY + BINARY)), draw(st.integers(0, n + 1)), draw(st.integers(0, n + 1)))
        for n in range(count)
    ]


@given(program=programs(), results=st.sets(st.integers(0, 13), max_size=4), length=st.sampled_from(LENGTHS[1:]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_blocks__any_chain(program: list[tuple[str, int, int]], results: set[int], length: int) -> None:
    def function(x: Tensor, c: Tensor) -> Any:
        values = [x, c.expand(()) if c.dim() else c]
        for op, a, b in program:
            whole = values[a] if values[a].dim() else x
            unary = op in UNARY
            values.append(getattr(ops, op)(whole) if unary else getattr(ops, op)(whole, values[b], "v1"))
        last = {len(program) - 1, *(r for r in results if r < len(program))}
        return tuple(values[2 + i] for i in sorted(last))

    repdl.set_num_threads(1)
    check(function, uniform(3, length, special=True), torch.tensor(-0.75))
