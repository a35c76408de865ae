"""Kernels of ops that are formulas, over windows, positions and indices, against the formulas: many shapes, layouts,
values and numbers of threads. The formulas run on the kernels of the ops that they call."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.callcache import c_extension
from repdl.registry import OPS, lookup
from repdl.registry.backend import get_backend
from repdl.testing import ODD_CONTRACTS, assert_same_bits, uniform
from repdl.testing.call_cache import is_cached

CONTRACTS = ("v1", "sequential", ODD_CONTRACTS[0])
THREADS = (1, 2, 7)
KINDS: tuple[dict[str, Any], ...] = ({}, {"special": True}, {"scale": 2.0**-130})

Arguments = tuple[str, tuple[Any, ...]]


def images(choose: random.Random, sides: Sequence[int]) -> torch.Tensor:
    """Of one of the layouts, values and batches that kernels tell apart."""
    batch = choose.choice([(1, 1), (2, 3), (1, 17), (3, 1), (40, 1), (2, 0), (0, 2)])
    x = uniform(choose.randrange(9), *batch, *sides, **choose.choice(KINDS))
    layout = choose.randrange(5)
    if layout == 0 and len(sides) == 2:
        x = x.contiguous(memory_format=torch.channels_last)
    elif layout == 1:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    elif layout == 2:
        x = x[:1, :, :1].expand(x.shape) if x.numel() else x
    return x if choose.random() < 0.7 else x.double()


def sizes(choose: random.Random) -> tuple[list[int], list[int]]:
    """Of input and output."""
    sides = [choose.choice([1, 2, 5, 16, 31]) for _ in range(choose.choice([1, 2, 2, 2, 3]))]
    return sides, [choose.choice([1, n, 2 * n, max(n // 2, 1), n + 3]) for n in sides]


def resized(choose: random.Random) -> Iterator[Arguments]:
    sides, counts = sizes(choose)
    at = [choose.randrange(n) if choose.random() < 0.2 else i * n // m for n, m in zip(sides, counts) for i in range(m)]
    yield "nearest", (images(choose, sides), at, counts)
    yield "nearest_backward", (images(choose, counts), at, sides)
    chosen = sorted(choose.sample(range(len(sides)), choose.randint(1, len(sides))))
    kept = [counts[d] if d in chosen else n for d, n in enumerate(sides)]
    taps = choose.choice([1, 2, 4])
    beyond = choose.choice([0, 1])  # positions behind the last one are no elements
    at = [
        min(i * sides[d] // kept[d] + t, sides[d] - 1 + beyond)
        for d in chosen
        for i in range(kept[d])
        for t in range(taps)
    ]
    doubles = torch.tensor([choose.choice([0.0, 0.25, -0.1, 0.7]) for _ in at], dtype=torch.float64)
    weights = doubles.view(torch.int64).tolist()
    yield "resample", (images(choose, sides), at, weights, chosen, kept)
    yield "resample_backward", (images(choose, kept), at, weights, chosen, sides)


def pooled(choose: random.Random) -> Iterator[Arguments]:
    sides, counts = sizes(choose)
    starts, stops = [], []
    for n, m in zip(sides, counts):
        regular, step, length = choose.random() < 0.5, choose.randint(1, 3), choose.randint(1, min(n, 9))
        for i in range(m):
            start = min(i * step, n - 1) if regular else choose.randrange(n)
            starts.append(start)
            stops.append(min(n, start + (length if regular else choose.randint(1, length))))
    lengths = [choose.choice([1, 2, 3, 7, -5]) for _ in starts]
    yield "avg_pool", (images(choose, sides), starts, stops, lengths, counts)
    yield "avg_pool_backward", (images(choose, counts), starts, stops, lengths, sides)


def added(choose: random.Random) -> Iterator[Arguments]:
    n, size, width = (
        choose.choice([0, 1, 40, 300]),
        choose.choice([1, 7, 90, 1500]),
        choose.choice([0, 1, 3, 15, 16, 70]),
    )
    dtype, kind = choose.choice([torch.float32, torch.float32, torch.float64]), choose.choice(KINDS)
    index = torch.tensor([choose.randrange(size) for _ in range(n)], dtype=torch.int64)
    x, values = uniform(1, size, width, **kind).to(dtype), uniform(2, n, width, **kind).to(dtype)
    yield "add_index_sum", (x, index, values, choose.choice([1.0, -0.3, 0.0, -0.0, math.inf, math.nan]))


def compare(name: str, args: tuple[Any, ...], what: str) -> None:
    """The kernel with the formula."""
    formula = OPS[name].formula
    assert formula is not None
    for contract in CONTRACTS:
        expected = formula(*args, contract)
        for threads in THREADS:
            repdl.set_num_threads(threads)
            actual = lookup(name, "cpu", args[0].dtype)(*args, contract)
            assert_same_bits(actual, expected, f"{name} {what} {contract} {threads} threads {args[1:]}")
            if expected.dim() == 4 and expected.numel():
                assert actual.stride() == OPS[name].fake(*args, contract).stride(), (name, what)


@pytest.mark.parametrize(("makes", "count"), [(resized, 20), (pooled, 30), (added, 30)])
def test_windows__kernels_are_the_formulas(makes: Any, count: int) -> None:
    before = repdl.settings.threads.state.threads
    try:
        for seed in range(count):
            for name, args in makes(random.Random(seed)):
                assert name in get_backend("cpu").ops, f"{name} has no kernel"
                compare(name, args, f"seed {seed} {tuple(args[0].shape)}")
    finally:
        repdl.settings.threads.state.threads = before


def old_nearest(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x.repeat_interleave(factor, 2).repeat_interleave(factor, 3)


@pytest.mark.parametrize("factor", [2, 3, 9])
def test_windows__gradient_of_nearest_is_the_sum_of_its_copies(factor: int) -> None:
    """By definition: with an integer factor, of a tile of the gradient, in row-major order."""
    x = uniform(1, 2, 3, 5, 7).requires_grad_()
    output = ops.interpolate(x, scale_factor=factor)
    assert_same_bits(output.detach(), old_nearest(x.detach(), factor))
    grad = uniform(2, *output.shape, special=True)
    (actual,) = torch.autograd.grad(output, x, grad)
    tiles = grad.view(2, 3, 5, factor, 7, factor).transpose(3, 4).reshape(2, 3, 5, 7, -1)
    assert_same_bits(actual, ops.sum(tiles, -1))


@pytest.mark.parametrize("stride", [1, 2])
def test_windows__averages_are_those_of_each_window(stride: int) -> None:
    """By definition: the mean of the elements of each window that exist."""
    x = uniform(1, 2, 3, 9, 10, special=True)
    actual = ops.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
    for i in range(actual.shape[2]):
        for j in range(actual.shape[3]):
            top, left = max(i * stride - 1, 0), max(j * stride - 1, 0)
            window = x[:, :, top : i * stride + 2, left : j * stride + 2]
            assert_same_bits(actual[:, :, i, j], ops.mean(window.flatten(2), 2), f"{i, j}")


@pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")
def test_windows__calls_are_replayed() -> None:
    """Numbers, and no tensors that torch made, are what these calls depend on."""
    x = uniform(1, 2, 3, 8, 8)
    for given in (x, x.clone().requires_grad_()):
        assert is_cached(ops.interpolate, given, scale_factor=2.0)
        assert is_cached(ops.interpolate, given, size=(5, 11), mode="bilinear", align_corners=True)
        assert is_cached(ops.avg_pool2d, given, 3, 1, 1)
        assert is_cached(ops.adaptive_avg_pool2d, given, 5)
