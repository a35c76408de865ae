"""What is particular to lu_factor, solve, inv, det and slogdet: torch's results, pivots, derivatives, errors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import DTypeError, LinAlgError, OutOfRangeError, ShapeError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

SQUARE = [(5, 5), (2, 3, 4, 4), (1, 1), (0, 0), (0, 3, 3), (30, 30)]
BOUND = {"rtol": 2.0**-36, "atol": 2.0**-36}
"""Of matrices of random numbers, whose condition numbers are below 2**10."""


def _matrix(*shape: int) -> torch.Tensor:
    return uniform(1, *shape).double().requires_grad_()


def _of_both(ours: Any, theirs: Any, *tensors: torch.Tensor, **options: Any) -> None:
    """Results and gradients of both functions."""
    results = []
    for function in (ours, theirs):
        found = function(*tensors, **options)
        outputs = [found] if isinstance(found, torch.Tensor) else list(found)
        differentiable = [t for t in outputs if t.requires_grad]
        grads = [uniform(7 + i, *t.shape).double() for i, t in enumerate(differentiable)]
        leaves = [t for t in tensors if t.requires_grad]
        gradients = torch.autograd.grad(differentiable, leaves, grads) if differentiable else ()
        results.append((*outputs, *gradients))
    for mine, other in zip(*results):
        assert mine.dtype is other.dtype
        torch.testing.assert_close(mine, other, **BOUND)


@pytest.mark.parametrize("shape", [*SQUARE, (4, 7), (2, 7, 4), (0, 3), (3, 0)])
def test_lu__is_torchs(shape: tuple[int, ...]) -> None:
    a = _matrix(*shape)
    _of_both(ops.lu_factor_ex, torch.linalg.lu_factor_ex, a)
    with repdl.enabled():
        a_p, a_l, a_u = torch.linalg.lu(a)
    found = torch.linalg.lu(a)
    torch.testing.assert_close((a_p, a_l, a_u), (found.P, found.L, found.U), **BOUND)
    found = torch.linalg.lu_factor_ex(a.detach())
    for parts in ((True, True), (True, False), (False, True)):
        _of_both(ops.lu_unpack, torch.lu_unpack, found.LU, found.pivots, unpack_data=parts[0], unpack_pivots=parts[1])


@pytest.mark.parametrize("shape", SQUARE)
def test_solve__is_torchs(shape: tuple[int, ...]) -> None:
    a, n = _matrix(*shape), shape[-1]
    sides = {(n,), (n, 2), shape[:-1], (*shape[:-1], 3), (5, *shape[:-1], 3)}
    for of_b in sides:
        b = uniform(2, *of_b).double().requires_grad_()
        _of_both(ops.solve, torch.linalg.solve, a, b)
        _of_both(ops.solve_ex, torch.linalg.solve_ex, a, b)
    b = uniform(2, *shape[:-2], 2, n).double().requires_grad_()
    _of_both(ops.solve, torch.linalg.solve, a, b, left=False)
    _of_both(ops.inv, torch.linalg.inv, a)
    _of_both(ops.det, torch.linalg.det, a)
    _of_both(lambda a: ops.slogdet(a)[1], lambda a: torch.linalg.slogdet(a)[1], a)
    assert_same_bits(ops.slogdet(a)[0].detach(), torch.linalg.slogdet(a)[0].detach())
    found = torch.linalg.lu_factor_ex(a.detach())
    _of_both(ops.lu_solve, torch.lu_solve, b.mT, found.LU, found.pivots)
    for left, adjoint in itertools.product((True, False), repeat=2):
        given: Any = (found.LU, found.pivots, (b.mT if left else b).detach())
        with repdl.enabled():
            ours = torch.linalg.lu_solve(*given, left=left, adjoint=adjoint)
        torch.testing.assert_close(ours, torch.linalg.lu_solve(*given, left=left, adjoint=adjoint), **BOUND)


def test_solve__under_enable() -> None:
    a, b = uniform(1, 4, 4).double(), uniform(2, 4, 2).double()
    with repdl.enabled():
        found = (
            torch.linalg.solve(a, b), torch.inverse(a), torch.linalg.inv(a), torch.det(a), torch.linalg.slogdet(a)[1],
            torch.linalg.lu_factor(a)[0], torch.linalg.lu(a)[2], torch.linalg.matrix_power(a, -1),
        )  # fmt: skip
        assert torch.logdet(a).isnan() == (torch.det(a) < 0)
    factors, inverse = ops.lu_factor(a)[0], ops.inv(a)
    expected = ops.solve(a, b), inverse, inverse, ops.det(a), ops.slogdet(a)[1], factors, factors.triu(), inverse
    for ours, same in zip(found, expected):
        assert_same_bits(ours, same)


def test_lu__is_what_the_contract_says() -> None:
    a = torch.tensor([[1.0, 2.0], [-3.0, 5.0]])
    found = ops.lu_factor(a)
    factor = torch.tensor(1.0) / torch.tensor(-3.0)
    assert_same_bits(found[0], torch.stack([a[1], torch.stack([factor, 2.0 - factor * 5.0])]))
    assert found[1].tolist() == [2, 2]
    ties = ops.lu_factor(torch.tensor([[1.0, 2.0, 3.0], [-1.0, 4.0, 1.0], [1.0, 2.0, 5.0]]))
    assert ties[1].tolist() == [1, 2, 3]
    whole = uniform(1, 3, 5, 5)
    for i in range(3):
        assert_same_bits(ops.lu_factor(whole[i])[0], ops.lu_factor(whole)[0][i].contiguous())
        assert_same_bits(ops.inv(whole[i]), ops.inv(whole)[i].contiguous())
    assert_same_bits(torch.func.vmap(ops.inv_ex)(whole)[0], ops.inv(whole))
    with torch.autocast("cpu", torch.bfloat16):
        assert_same_bits(ops.inv(whole), ops.solve(whole, torch.eye(5).expand(3, 5, 5)))


def test_lu__second_derivatives() -> None:
    a, b = _matrix(3, 3), uniform(2, 3, 2).double().requires_grad_()
    assert torch.autograd.gradgradcheck(ops.solve, (a, b))
    for function in (ops.inv, ops.det, lambda a: ops.slogdet(a)[1], lambda a: ops.lu_factor_ex(a)[0]):
        assert torch.autograd.gradgradcheck(function, (a,))
    for shape in ((2, 4), (4, 2)):
        assert torch.autograd.gradgradcheck(lambda a: ops.lu_factor_ex(a)[0], (_matrix(*shape),))


def test_solve__the_derivative_of_a_repeated_matrix_is_the_contracts_sum() -> None:
    a, b = (uniform(1, 3, 3) + 2 * torch.eye(3)).requires_grad_(), uniform(2, 1500, 3, 1)
    each, grad = a.detach().repeat(1500, 1, 1).requires_grad_(), uniform(3, 1500, 3, 1)
    (got,) = torch.autograd.grad(ops.solve(a, b), a, grad)
    (parts,) = torch.autograd.grad(ops.solve(each, b), each, grad)
    assert_same_bits(got, ops.sum(parts, 0))


def test_solve__of_a_singular_matrix() -> None:
    ones, zeros = torch.ones(2, 3, 3), torch.zeros(3, 3)
    for a in (ones, zeros):
        for ours, theirs in ((ops.det(a), torch.linalg.det(a)), *zip(ops.slogdet(a), torch.linalg.slogdet(a))):
            assert_same_bits(ours, theirs)
        assert ops.inv_ex(a).info.tolist() == torch.linalg.inv_ex(a).info.tolist()
        assert ops.solve_ex(a, a).info.tolist() == torch.linalg.solve_ex(a, a).info.tolist()
    wrong = r"solve: A\[0\] is not invertible: U\[1, 1\] is 0, expected"
    with pytest.raises(LinAlgError, match=wrong):
        ops.solve(ones, ones)
    for call in (lambda: ops.inv(ones), lambda: ops.lu_factor(zeros), lambda: ops.inv_ex(zeros, check_errors=True)):
        with pytest.raises(torch.linalg.LinAlgError, match="not invertible"):
            call()
    with repdl.enabled(), pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(ones)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor flushes no subnormal numbers")
def test_lu__derivatives_where_a_thread_flushes_subnormal_numbers() -> None:
    a = torch.eye(3)
    a[2, 1] = 2.0**-130
    a.requires_grad_()
    grad = torch.zeros(3, 3)
    grad[2, 0] = 2.0**30
    found = []
    for flush in (False, True):
        torch.set_flush_denormal(flush)
        try:
            factors = ops.lu_factor(a)[0]
            found.append((factors.detach(), *torch.autograd.grad(factors, a, grad)))
        finally:
            torch.set_flush_denormal(False)
    assert found[0][0][2, 1] == 2.0**-130
    for usual, flushed in zip(*found):
        assert_same_bits(usual, flushed)


def test_lu__rejects() -> None:
    a, b = torch.eye(3), torch.ones(2, 1)
    pivots = torch.tensor([1, 2, 3], dtype=torch.int32)
    assert_rejected(lambda: ops.lu_factor(a[0]), ShapeError, "lu_factor: A.dim() is 1")
    assert_rejected(lambda: ops.lu_factor(a.long()), DTypeError, "lu_factor: A.dtype is int64")
    assert_rejected(lambda: ops.solve(a, b), ShapeError, "solve: B.shape[-2] is 2", "3 (= A.shape[-1])")
    assert_rejected(lambda: ops.solve(a[:2], b), ShapeError, "solve: A.shape[-1] is 3", "2 (= A.shape[-2])")
    assert_rejected(lambda: ops.solve(a, a[0], left=False), ShapeError, "solve: left is False", "matrices")
    for function in (ops.inv, ops.det, ops.slogdet):
        name = function.__name__
        assert_rejected(lambda: function(a[:2]), ShapeError, f"{name}: A.shape[-1] is 3")
        assert_rejected(lambda: function(a.long()), DTypeError, "A.dtype is int64")
    assert_rejected(lambda: ops.lu_solve(a, a, pivots[:2]), ShapeError, "lu_solve: LU_pivots.shape is (2,)")
    assert_rejected(lambda: ops.lu_solve(a, a, pivots.long()), DTypeError, "lu_solve: LU_pivots.dtype is int64")
    assert_rejected(lambda: ops.lu_unpack(a, pivots[:1]), ShapeError, "lu_unpack: LU_pivots.shape is (1,)")
    assert_same_bits(ops.inv(a), a)


def test_lu__results_are_where_the_matrix_is() -> None:
    a = uniform(1, 3, 3)
    with torch.device("meta"):
        assert ops.lu_factor_ex(a)[2].device.type == ops.cholesky_ex(a)[1].device.type == "cpu"
        found = ops.lu_factor(a)
        assert found.pivots.device.type == ops.lu_solve(a, *found).device.type == ops.det(a).device.type == "cpu"


def test_lu__rejects_pivots_that_are_no_rows() -> None:
    a, wrong = uniform(1, 3, 3), torch.tensor([1, 4, 3], dtype=torch.int32)
    for pivots in (wrong, wrong - 4):
        assert_rejected(lambda: ops.lu_solve(a, a, pivots), OutOfRangeError, "expected 1 to 3")
        assert_rejected(lambda: ops.lu_unpack(a, pivots), OutOfRangeError, "expected 1 to 3")
