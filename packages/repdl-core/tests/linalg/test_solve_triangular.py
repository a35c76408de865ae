"""What is particular to solve_triangular: both triangles and sides, derivatives, errors."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

SHAPES = [((5, 5), 3), ((2, 3, 4, 4), 2), ((1, 1), 1), ((0, 0), 2), ((3, 3), 0)]


def _pair(shape: tuple[int, ...], k: int, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    n = shape[-1]
    a = uniform(1, *shape).double() / 3 + 2 * torch.eye(n)
    b = uniform(2, *shape[:-2], *((n, k) if left else (k, n))).double()
    return a.requires_grad_(), b.requires_grad_()


@pytest.mark.parametrize("shape, k", SHAPES)
def test_solve_triangular__is_torchs(shape: tuple[int, ...], k: int) -> None:
    solved = []
    for upper, unit, left in product((False, True), repeat=3):
        a, b = _pair(shape, k, left)
        options: dict[str, Any] = {"upper": upper, "left": left, "unitriangular": unit}
        ours, theirs = ops.solve_triangular(a, b, **options), torch.linalg.solve_triangular(a, b, **options)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        grad = uniform(3, *ours.shape).double()
        for mine, other in zip(torch.autograd.grad(ours, (a, b), grad), torch.autograd.grad(theirs, (a, b), grad)):
            torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)
        solved.append((a, b, options, ours))
    with repdl.enabled():
        for a, b, options, ours in solved:
            assert_same_bits(torch.linalg.solve_triangular(a, b, **options).detach(), ours.detach())


@pytest.mark.parametrize("upper", [False, True])
def test_solve_triangular__the_other_triangle_is_not_read(upper: bool) -> None:
    a, b = uniform(1, 4, 4), uniform(2, 4, 2).requires_grad_()
    other = torch.full((4, 4), torch.nan)
    kept, other = (a.triu(), other.tril(-1)) if upper else (a.tril(), other.triu(1))
    found = []
    for added in (torch.zeros(4, 4), other.nan_to_num(0.0) + 7 * (kept == 0), torch.where(kept == 0, torch.nan, 0.0)):
        matrix = (kept + added).requires_grad_()
        x = ops.solve_triangular(matrix, b, upper=upper)
        found.append([x, *torch.autograd.grad(x.sum(), (matrix, b))])
    for result in found[1:]:
        for got, expected in zip(result, found[0]):
            assert_same_bits(got.detach(), expected.detach())
    diagonal = kept.clone().fill_diagonal_(torch.nan)
    assert ops.solve_triangular(diagonal, b, upper=upper, unitriangular=True).isfinite().all()


def test_solve_triangular__second_derivatives() -> None:
    a, b = _pair((3, 3), 2, True)
    assert torch.autograd.gradgradcheck(lambda a, b: ops.solve_triangular(a, b, upper=True), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: ops.solve_triangular(a, b, upper=False, left=True), (a, b))


def test_solve_triangular__batches_broadcast_and_are_each_alone() -> None:
    a, b = uniform(1, 3, 1, 4, 4) + 2 * torch.eye(4), uniform(2, 2, 4, 5)
    whole = ops.solve_triangular(a, b, upper=False)
    assert whole.shape == (3, 2, 4, 5)
    for i, j in product(range(3), range(2)):
        assert_same_bits(ops.solve_triangular(a[i, 0], b[j], upper=False), whole[i, j].contiguous())
    mapped = torch.func.vmap(lambda m: ops.solve_triangular(m, b[0], upper=False))(a[:, 0])
    assert_same_bits(mapped, whole[:, 0].contiguous())


def test_solve_triangular__the_derivative_of_a_repeated_matrix_is_the_contracts_sum() -> None:
    a, b = (uniform(1, 3, 3) + 2 * torch.eye(3)).requires_grad_(), uniform(2, 1500, 3, 1)
    each = a.detach().repeat(1500, 1, 1).requires_grad_()
    grad = uniform(3, 1500, 3, 1)
    (got,) = torch.autograd.grad(ops.solve_triangular(a, b, upper=True), a, grad)
    (parts,) = torch.autograd.grad(ops.solve_triangular(each, b, upper=True), each, grad)
    assert_same_bits(got, ops.sum(parts, 0))
    assert not torch.equal(got, parts.sum(0))  # torch's order is another


def test_solve_triangular__keeps_its_dtype_under_autocast() -> None:
    a, b = uniform(1, 4, 4) + 2 * torch.eye(4), uniform(2, 4, 5).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        x = ops.solve_triangular(a, b, upper=True)
    assert_same_bits(x.detach(), ops.solve_triangular(a, b.detach(), upper=True))


def test_solve_triangular__rejects() -> None:
    a, b = uniform(1, 3, 3), uniform(2, 3, 2)
    for message, arguments, options in (
        ("B.dim() is 1", (a, b[:, 0]), {"upper": True}),
        ("A.shape[-1] is 2", (b, b), {"upper": True}),
        ("B.shape[-2] is 2", (a, b[:2]), {"upper": True}),
        ("B.shape[-1] is 2", (a, b), {"upper": True, "left": False}),
    ):
        assert_rejected(
            lambda: ops.solve_triangular(*arguments, **options),
            ValueError,
            message,
            by_torch=lambda: torch.linalg.solve_triangular(*arguments, **options),
        )
    with pytest.raises(ValueError, match="do not broadcast"):
        ops.solve_triangular(a.expand(2, 3, 3), b.expand(3, 3, 2), upper=True)
    with pytest.raises(TypeError, match="B.dtype is float64"):
        ops.solve_triangular(a, b.double(), upper=True)
    with pytest.raises(TypeError, match="upper"):
        ops.solve_triangular(a, b)  # type: ignore[call-arg]
