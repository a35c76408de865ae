"""Factorizations and substitution have the bits of their formulas, in every panel, chunk, tile and share of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import repdl
import repdl_cpu
from repdl.registry import OPS, implementation
from repdl.registry.backend import get_backend
from repdl.testing import ODD_CONTRACTS, assert_same_bits, uniform

CONTRACTS = ("v1", "sequential", *ODD_CONTRACTS)
SIDES = (1, 2, 5, 16, 31, 32, 33, 49, 70)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = repdl.settings.threads.state.threads
    yield
    repdl.settings.threads.state.threads = before


def same(op: str, *args: Any, threads: tuple[int, ...] = (1, 3)) -> None:
    """A kernel and the formula of an op, on every ISA."""
    formula = OPS[op].formula
    assert formula is not None
    with torch.no_grad():
        expected = formula(*args)
    for isa in {repdl_cpu.get_isa(), "baseline"}:
        with repdl_cpu.use_isa(isa):
            for count in threads:
                repdl.set_num_threads(count)
                found = implementation(get_backend("cpu"), op)(*args)
                shapes = [tuple(a.shape) for a in args if isinstance(a, torch.Tensor)]
                assert_same_bits(found, expected, f"{op} of {shapes} {args[-1]} on {isa} with {count} threads")


def definite(n: int, dtype: torch.dtype) -> torch.Tensor:
    a = uniform(1, n, n).to(dtype)
    return a + a.mT + 2 * n * torch.eye(n, dtype=dtype)


@DTYPES
@pytest.mark.parametrize("contract", CONTRACTS)
def test_matrices__of_every_size(contract: str, dtype: torch.dtype) -> None:
    for n in SIDES:
        a = uniform(1, n, n).to(dtype)
        same("cholesky", definite(n, dtype), contract)
        for pivot in (True, False):
            same("lu_factor", a, pivot, contract)
        same("lu_factor", uniform(2, n, n // 2 + 1).to(dtype), True, contract)
        same("lu_factor", uniform(2, n // 2 + 1, n + 20).to(dtype), True, contract)
        for columns in (1, 3, 16, 17, 65):
            b = uniform(3, n, columns).to(dtype)
            for upper in (True, False):
                same("solve_triangular", a + 2 * n * torch.eye(n, dtype=dtype), b, upper, columns == 3, contract)


@DTYPES
@pytest.mark.parametrize("contract", CONTRACTS)
def test_matrices__reflections(contract: str, dtype: torch.dtype) -> None:
    for m, n in ((1, 1), (1, 4), (5, 5), (33, 17), (17, 40), (49, 49)):
        for columns in {0, min(m, n), m}:
            same("qr", uniform(1, m, n).to(dtype), columns, contract)
    same("qr", uniform(1, 3, 600).to(dtype), 3, contract)


@pytest.mark.parametrize("contract", ["v1", ODD_CONTRACTS[0]])
def test_matrices__long_sums(contract: str) -> None:
    """Of more terms than a chunk of each contract, and of several levels of its tree."""
    n = 530 if contract == "v1" else 150
    a = uniform(1, n, n)
    same("lu_factor", a, True, contract, threads=(2,))
    same("cholesky", definite(n, torch.float32), contract, threads=(2,))
    for upper in (True, False):
        same("solve_triangular", definite(n, torch.float32), a[:, :20], upper, False, contract, threads=(2,))


@DTYPES
def test_matrices__batches_are_shared_among_threads(dtype: torch.dtype) -> None:
    for count in (2, 5, 40):
        a, b = uniform(1, count, 9, 9).to(dtype), uniform(2, count, 9, 4).to(dtype)
        same("lu_factor", a, True, "v1", threads=(1, 2, 7))
        same("cholesky", a @ a.mT + torch.eye(9, dtype=dtype), "v1", threads=(1, 2, 7))
        same("solve_triangular", a, b, False, False, "v1", threads=(1, 2, 7))
        same("solve_triangular", a, b, True, False, "v1", threads=(1, 2, 7))
        same("qr", a, 9, "v1", threads=(1, 2, 7))
    same("lu_factor", uniform(1, 700, 9, 9).to(dtype), True, "v1", threads=(3,))


@DTYPES
def test_matrices__special_values(dtype: torch.dtype) -> None:
    """Infinities, all kinds of NaN, zeros of both signs, subnormal numbers; pivots that are equal or none; no rank."""
    a = uniform(1, 60, 5, 5, special=True).to(dtype)
    ties = torch.tensor([[1.0, 2, 3], [-1, 4, 1], [1, 2, 5]], dtype=dtype)
    nans = torch.tensor([[1.0, 2], [float("nan"), 1], [float("inf"), 1], [float("nan"), 3]], dtype=dtype)
    words = nans.view(torch.int32 if dtype is torch.float32 else torch.int64)
    words[3, 0] = words[1, 0] + 1  # the first NaN is the pivot, whatever its bits
    zeros = torch.zeros(4, 4, dtype=dtype)
    small = uniform(2, 6, 6).to(dtype) * torch.finfo(dtype).smallest_normal
    for x in (a, a[:, :3], a[:, :, :2], ties, ties.mT, nans, zeros, -zeros, small, small[:3], ties * torch.inf):
        for pivot in (True, False):
            same("lu_factor", x, pivot, "v1")
        least = min(x.shape[-2:])
        same("qr", x, least, "v1")
        same("qr", x, x.shape[-2], "v1")
        square = x[..., :least, :least]
        same("cholesky", square, "v1")
        for upper in (True, False):
            for unit in (True, False):
                same("solve_triangular", square, square, upper, unit, "v1")
