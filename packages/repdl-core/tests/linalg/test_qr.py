"""What is particular to qr: factors, signs, gradients, errors."""

from __future__ import annotations

import pytest
import torch

import repdl
from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

SHAPES = [(4, 3), (3, 4), (33, 33), (0, 3), (3, 0), (2, 3, 3), (2, 0, 4, 5), (1, 1), (300, 5)]


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", SHAPES)
def test_qr__factors_are_torchs_but_for_signs(shape: tuple[int, ...], mode: str) -> None:
    """Of at most 300 terms up to 1 in 33 reflections: 16 roundings each is far more than is seen."""
    a = uniform(1, *shape)
    (q, r), (theirs, r_of_torch) = ops.qr(a, mode), torch.linalg.qr(a.double(), mode)
    assert q.shape == theirs.shape and r.shape == r_of_torch.shape and q.dtype is r.dtype is a.dtype
    assert (r.tril(-1) == 0).all()
    bound = 16 * 33 * 2.0**-24
    assert ((r.abs() - r_of_torch.abs()).abs() <= bound).all()
    if mode != "r":
        assert ((q.double() @ r.double() - a).abs() <= bound).all()
        identity = torch.eye(q.shape[-1], dtype=torch.float64)
        assert ((q.double().mT @ q.double() - identity).abs() <= bound).all()
    if a.dim() == 3:
        for i in range(len(a)):
            assert_same_bits(ops.qr(a[i], mode)[1], r[i].contiguous())


def test_qr__signs_are_torchs() -> None:
    for shape in ((6, 6), (9, 4), (4, 9), (3, 1), (1, 3)):
        a = uniform(1, *shape)
        assert torch.equal(ops.qr(a)[1].sign(), torch.linalg.qr(a).R.sign())
    assert torch.equal(ops.qr(torch.eye(3))[1], torch.diag(torch.tensor([-1.0, -1.0, 1.0])))  # LAPACK's is the identity
    q, r = ops.qr(torch.zeros(3, 2))
    assert torch.equal(q, torch.eye(3, 2)) and (r == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_qr__of_numbers_whose_squares_are_none(dtype: torch.dtype) -> None:
    a, low, high = uniform(1, 5, 4).to(dtype), *((-126, 120) if dtype is torch.float32 else (-1022, 1016))
    (q, r), powers = ops.qr(a), torch.tensor([low, high, 0, low // 2])
    q_scaled, r_scaled = ops.qr(torch.ldexp(a.double(), torch.tensor(low // 2)).to(dtype))
    assert_same_bits(q_scaled, q)
    assert_same_bits(r_scaled, torch.ldexp(r.double(), torch.tensor(low // 2)).to(dtype))
    for power in powers.tolist():
        q, r = ops.qr(torch.ldexp(a.double(), torch.tensor(power)).to(dtype))
        assert (
            (q.mT @ q - torch.eye(4, dtype=dtype)).abs() <= 64 * torch.finfo(dtype).eps
        ).all() and r.isfinite().all()
    subnormal = ops.qr(a * torch.finfo(dtype).smallest_normal * 2**-8)[0]
    assert ((subnormal.mT @ subnormal - torch.eye(4, dtype=dtype)).abs() <= 64 * torch.finfo(dtype).eps).all()
    assert ops.qr(torch.full((3, 2), torch.inf, dtype=dtype))[0].isnan().any()


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5), (2, 4, 2)])
def test_qr__derivative_is_torchs(shape: tuple[int, ...]) -> None:
    """Of the same factors, so of those of which LAPACK has the same signs."""
    a = uniform(1, *shape).double().requires_grad_()
    grads = []
    for function in (ops.qr, torch.linalg.qr):
        q, r = function(a)
        sign = r.diagonal(dim1=-2, dim2=-1).sign()
        q, r = q * sign.unsqueeze(-2), r * sign.unsqueeze(-1)
        loss = (q * uniform(2, *q.shape)).sum() + (r * uniform(3, *r.shape)).sum()
        grads.append(torch.autograd.grad(loss, a)[0])
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-9)


def test_qr__keeps_its_dtype_under_autocast() -> None:
    a = uniform(1, 5, 3)
    with torch.autocast("cpu", torch.bfloat16):
        q, r = ops.qr(a)
    for got, expected in zip((q, r), ops.qr(a)):
        assert_same_bits(got, expected)


def test_qr__rejects() -> None:
    a = uniform(1, 3, 3)
    assert_rejected(lambda: ops.qr(a[0]), ValueError, "A.dim()", by_torch=lambda: torch.linalg.qr(a[0]))
    assert_rejected(
        lambda: ops.qr(a, "R"), repdl.errors.ArgumentError, "mode", by_torch=lambda: torch.linalg.qr(a, "R")
    )
    assert_rejected(lambda: ops.qr(a.bfloat16()), TypeError, "A.dtype", by_torch=lambda: torch.linalg.qr(a.bfloat16()))


def test_enable__qr() -> None:
    a = uniform(1, 7, 4)
    wanted = ops.qr(a), ops.qr(a, "complete")
    with repdl.enabled():
        found = torch.linalg.qr(a), torch.linalg.qr(a, "complete")
        out = torch.linalg.qr(a, out=(torch.empty(0), torch.empty(0)))
    for got, expected in zip([*found[0], *found[1], *out], [*wanted[0], *wanted[1], *wanted[0]]):
        assert_same_bits(got, expected)
