"""What is particular to cholesky: both triangles, info, errors, derivatives, what is solved with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import DTypeError, LinAlgError, ShapeError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

SHAPES = [(5, 5), (2, 3, 4, 4), (64, 64), (1, 1), (0, 0), (0, 3, 3)]


def _definite(*shape: int) -> torch.Tensor:
    a = uniform(1, *shape).double()
    return a @ a.mT / shape[-1] + torch.eye(shape[-1]) if shape[-1] else a


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky__is_torchs(shape: tuple[int, ...], upper: bool) -> None:
    """Condition numbers below 10: 2**-44 is far more than seen."""
    bound = {"rtol": 2.0**-44, "atol": 2.0**-44}
    b, grad = uniform(2, *shape[:-1], 3).double(), uniform(3, *shape).double()
    results = []
    for library in (ops, torch.linalg):
        a = _definite(*shape).requires_grad_()
        factor = library.cholesky(a, upper=upper)
        x = (ops if library is ops else torch).cholesky_solve(b, factor, upper)
        inverse = (ops if library is ops else torch).cholesky_inverse(factor, upper)
        (to_a,) = torch.autograd.grad(factor, a, grad)
        results.append((factor, x, inverse, to_a))
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, **bound)
    a = _definite(*shape)
    with repdl.enabled():
        found = torch.linalg.cholesky(a, upper=upper)
        others = (
            torch.cholesky_solve(b, found, upper),
            torch.cholesky_inverse(found, upper),
        )
    for same, ours in zip((found, *others), results[0][:3]):
        assert_same_bits(same, ours.detach())


def test_cholesky__is_what_the_contract_says() -> None:
    """Of two columns by hand, in float32 of numpy: one product each, so that no order of a sum is left."""
    a = _definite(2, 2).float()
    x = a.numpy()
    first = np.sqrt(x[0, 0])
    below = x[1, 0] / first
    last = np.sqrt(x[1, 1] - below * below)
    assert_same_bits(ops.cholesky(a), torch.tensor(np.array([[first, 0], [below, last]], np.float32)))
    whole = _definite(3, 5, 5).float()
    for i in range(3):
        assert_same_bits(ops.cholesky(whole[i]), ops.cholesky(whole)[i].contiguous())
    mapped = torch.func.vmap(ops.cholesky)(whole)
    assert_same_bits(mapped, ops.cholesky(whole))
    with torch.autocast("cpu", torch.bfloat16):
        assert_same_bits(ops.cholesky(whole), mapped)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky__the_other_triangle_is_not_read(upper: bool) -> None:
    a = _definite(4, 4).float()
    spoilt = a + (torch.ones(4, 4).tril(-1) if upper else torch.ones(4, 4).triu(1))
    assert_same_bits(ops.cholesky(spoilt, upper=upper), ops.cholesky(a, upper=upper))
    factor, b = ops.cholesky(a, upper=upper), uniform(2, 4, 2)
    both = factor + (torch.ones(4, 4).tril(-1) if upper else torch.ones(4, 4).triu(1))
    assert_same_bits(ops.cholesky_solve(b, both, upper), ops.cholesky_solve(b, factor, upper))


def test_cholesky__second_derivatives() -> None:
    a = _definite(3, 3).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda a: ops.cholesky((a + a.mT) / 2), (a,))


def test_cholesky__info_is_torchs() -> None:
    good, bad = torch.eye(3), torch.tensor([[1.0, 0, 0], [2, 1, 0], [0, 0, 1]])
    first, last = torch.diag(torch.tensor([0.0, 1, 1])), torch.diag(torch.tensor([1, 1, -1.0]))
    nan = torch.diag(torch.tensor([1.0, torch.nan, 1]))
    a = torch.stack([good, bad, first, last, nan])
    info = ops.cholesky_ex(a).info
    assert info.tolist() == torch.linalg.cholesky_ex(a).info.tolist() == [0, 2, 1, 3, 2]
    assert info.dtype is torch.int32
    assert ops.cholesky_ex(a[0]).info.shape == ()
    assert ops.cholesky_ex(a[:0]).info.shape == (0,)


def test_cholesky__a_matrix_that_is_not_positive_definite_raises() -> None:
    a = torch.stack([torch.eye(2), torch.tensor([[1.0, 2], [2, 1]])])
    wrong = r"cholesky: A\[1\] is not positive-definite: element 1 of the diagonal of L is not greater than 0; add"
    for call in (lambda: ops.cholesky(a), lambda: ops.cholesky_ex(a, check_errors=True)):
        with pytest.raises(LinAlgError, match=wrong):
            call()
    with pytest.raises(LinAlgError, match="cholesky: A is not"):
        ops.cholesky(a[1])
    with repdl.enabled(), pytest.raises(torch.linalg.LinAlgError, match="order 2 is not positive-definite"):
        torch.linalg.cholesky(a)
    assert_same_bits(ops.cholesky(a[0]), torch.eye(2))


def test_multivariate_normal_under_enable_is_torchs() -> None:
    covariance, value = _definite(4, 4), uniform(2, 3, 4).double()
    results = []
    for enabled in (False, True):
        leaf = covariance.clone().requires_grad_()
        with repdl.enabled() if enabled else torch.enable_grad():
            normal = torch.distributions.MultivariateNormal(torch.zeros(4).double(), leaf)
            logs = normal.log_prob(value)
            (grad,) = torch.autograd.grad(logs.sum(), leaf)
        results.append((logs, grad))
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=2.0**-42, atol=2.0**-42)


def test_cholesky__rejects() -> None:
    a, b = torch.eye(3), torch.ones(2, 1)
    assert_rejected(lambda: ops.cholesky(a[0]), ShapeError, "cholesky: A.dim() is 1", tensors=[a])
    assert_rejected(lambda: ops.cholesky(a[:2]), ShapeError, "cholesky: A.shape[-1] is 3", "2 (= A.shape[-2])")
    assert_rejected(lambda: ops.cholesky(a.long()), DTypeError, "cholesky: A.dtype is int64")
    assert_rejected(lambda: ops.cholesky_inverse(a[0]), ShapeError, "cholesky_inverse: input.dim() is 1")
    assert_rejected(lambda: ops.cholesky_inverse(a[:2]), ShapeError, "cholesky_inverse: input.shape[-1] is 3")
    assert_rejected(lambda: ops.cholesky_solve(b, a[:2]), ShapeError, "cholesky_solve: input2.shape[-1] is 3")
    assert_rejected(
        lambda: ops.cholesky_solve(b, a), ShapeError, "cholesky_solve: input.shape[-2] is 2", "3 (= input2.shape[-1])"
    )
    assert_same_bits(ops.cholesky(a), a)
