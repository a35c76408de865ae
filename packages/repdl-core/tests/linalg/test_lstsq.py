"""What is particular to lstsq: solutions, ranks, residuals, gradients, errors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import OutOfRangeError, UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

SHAPES = [
    ((6, 3), (6, 2)),
    ((3, 6), (3, 2)),
    ((5, 5), (5, 1)),
    ((6, 3), (6,)),
    ((3, 6), (3,)),
    ((2, 6, 3), (2, 6, 4)),
    ((2, 3, 6), (2, 3)),
    ((2, 6, 3), (1, 6, 4)),
    ((1, 4, 4), (3, 4, 2)),
    ((2, 1, 4, 6), (1, 3, 4, 2)),
    ((300, 5), (300, 2)),
    ((0, 3), (0, 2)),
    ((3, 0), (3, 2)),
    ((2, 5, 3), (2, 5, 0)),
    ((0, 5, 3), (0, 5, 1)),
]
DRIVERS = (None, "gelsy", "gels")


def _given(shapes: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix that is far from less than full rank, and what it is to give."""
    (shape, of_b), a = shapes, uniform(1, *shapes[0])
    return a + torch.eye(*shape[-2:]) * 2, uniform(2, *of_b)


@pytest.mark.parametrize("driver", DRIVERS)
def test_lstsq__results_are_torchs(driver: str | None) -> None:
    """Condition numbers up to 10, numbers up to 3, at most 300 terms in 5 reflections: 2**-14 is far more than seen."""
    for shapes in SHAPES:
        a, b = _given(shapes)
        for dtype, bound in ((torch.float32, 2.0**-14), (torch.float64, 2.0**-42)):
            found = ops.lstsq(a.to(dtype), b.to(dtype), driver=driver)
            expected = torch.linalg.lstsq(a.double(), b.double(), driver=driver)
            for name in ("solution", "residuals", "rank", "singular_values"):
                got, wanted = getattr(found, name), getattr(expected, name)
                assert got.shape == wanted.shape, (shapes, name)
                assert got.dtype is (dtype if wanted.is_floating_point() else torch.int64)
                if name == "rank" and wanted.numel() and not b.numel():  # torch's are 0
                    assert (got == min(a.shape[-2:])).all()
                    continue
                if name == "residuals" and shapes[0] == (3, 0) and driver == "gels":  # torch's are 0
                    assert_same_bits(got, ops.sum(ops.square(b.to(dtype)), 0))
                    continue
                scale = max(1.0, float(wanted.abs().max())) if wanted.numel() else 1.0
                assert ((got.double() - wanted).abs() <= bound * scale).all(), (shapes, name)


def test_lstsq__is_what_the_contract_says() -> None:
    a, b = _given(((7, 4), (7, 3)))
    q, r = ops.qr(a)
    assert_same_bits(ops.lstsq(a, b)[0], ops.solve_triangular(r, ops.matmul(q.mT, b), upper=True))
    a, b = _given(((4, 7), (4, 3)))
    q, r = ops.qr(a.mT)
    assert_same_bits(ops.lstsq(a, b)[0], ops.matmul(q, ops.solve_triangular(r.mT, b, upper=False)))
    a, b = _given(((3, 7, 4), (3, 7, 2)))
    whole = ops.lstsq(a, b, driver="gels")
    for i in range(3):
        alone = ops.lstsq(a[i], b[i], driver="gels")
        assert_same_bits(alone[0], whole[0][i].contiguous())
        assert_same_bits(alone[1], whole[1][i].contiguous())
    with torch.autocast("cpu", torch.bfloat16):
        assert_same_bits(ops.lstsq(a, b)[0], whole[0])


@pytest.mark.parametrize("driver", ["gelsy", "gels"])
def test_lstsq__derivative_is_torchs(driver: str) -> None:
    for shapes in SHAPES[:10]:
        grads = []
        for function in (ops.lstsq, torch.linalg.lstsq):
            a, b = (t.double().requires_grad_() for t in _given(shapes))
            x, residuals, *_ = function(a, b, driver=driver)
            loss = (x * uniform(3, *x.shape)).sum()
            if residuals.requires_grad:
                loss = loss + residuals.square().sum()
            grads.append(torch.autograd.grad(loss, (a, b)))
        for got, expected in zip(*grads):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9, msg=lambda m: f"{shapes}: {m}")
    a, b = (t.double().requires_grad_() for t in _given(((4, 2), (4, 1))))
    assert torch.autograd.gradgradcheck(lambda a, b: ops.lstsq(a, b)[0], (a, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lstsq__needs_full_rank(dtype: torch.dtype) -> None:
    """Equal columns, sums of others, zeros and NaN, in any size of numbers; whatever is regular is none of these."""
    a, b = (t.to(dtype) for t in _given(((2, 9, 4), (2, 9, 2))))
    wrong = {"equal": a[..., 0], "sum": a[..., 0] + a[..., 1] * 0.7 - a[..., 2], "zero": a[..., 0] * 0}
    wrong |= {"NaN": a[..., 0] * torch.nan, "inf": a[..., 0] * torch.inf}
    for (name, column), scale, wide in itertools.product(wrong.items(), (1.0, 1e-30, 1e30), (False, True)):
        given = (torch.cat([a[..., :3], column.unsqueeze(-1)], -1) * scale)[1]
        given, other = (given.mT, b[1, :4]) if wide else (given, b[1])
        with pytest.raises(OutOfRangeError, match="A has less than full rank, expected 4"):
            ops.lstsq(given, other)
        if name in ("zero", "NaN") and not wide:
            with pytest.raises(OutOfRangeError, match="less than full rank"):
                ops.lstsq(given, other, driver="gels")
    both = a.clone()
    both[1, :, 3] = both[1, :, 0]
    with pytest.raises(OutOfRangeError, match=r"A\[1\] has less than full rank"):
        ops.lstsq(both, b)
    for scale in (1e-30, 1e30):
        x = ops.lstsq(a * scale, b * scale)[0]
        torch.testing.assert_close(x, ops.lstsq(a, b)[0], rtol=1e-4, atol=1e-4)
    for n in (1, 40, 200):
        square = uniform(n, n, n).to(dtype)
        assert ops.lstsq(square, square[:, :1]).rank == n
    near = torch.diag(torch.tensor([1.0, 1e-3], dtype=dtype))
    assert ops.lstsq(near, near).rank == 2
    with pytest.raises(OutOfRangeError, match="lower rcond"):
        ops.lstsq(near, near, rcond=1e-2)


def test_lstsq__rejects() -> None:
    a, b = _given(((5, 3), (5, 2)))

    def rejected(expected: type[Exception], message: str, *args: Any, by_torch: bool = True, **kwargs: Any) -> None:
        theirs = (lambda: torch.linalg.lstsq(*args, **kwargs)) if by_torch else None
        assert_rejected(lambda: ops.lstsq(*args, **kwargs), expected, message, by_torch=theirs)

    rejected(ValueError, "A.dim() is 1, expected 2 or more", a[0], b)
    rejected(ValueError, "B.shape[-2] is 4, expected 5", a, b[:4])
    rejected(ValueError, "B.shape is (4,), expected (5,)", a, b[:4, 0])
    rejected(ValueError, "B.dim() is 3, expected 2 or 1", a, b.unsqueeze(0))
    rejected(TypeError, "A.dtype is bfloat16, expected float32 or float64", a.bfloat16(), b.bfloat16())
    rejected(TypeError, "B.dtype is float64, expected float32", a, b.double())
    rejected(TypeError, "driver is 'qr'", a, b, driver="qr")
    for driver in ("gelsd", "gelss"):
        rejected(UnsupportedError, "singular values, expected one of", a, b, driver=driver, by_torch=False)


def test_enable__lstsq() -> None:
    a, b = _given(((2, 5, 3), (2, 5, 2)))
    with repdl.enabled():
        for driver in DRIVERS:
            for got, expected in zip(torch.linalg.lstsq(a, b, driver=driver), ops.lstsq(a, b, driver=driver)):
                assert_same_bits(got, expected)
        out = torch.linalg.lstsq(
            a, b, out=tuple(torch.empty(0, dtype=d) for d in [torch.float32] * 2 + [torch.int64, torch.float32])
        )
        assert_same_bits(out[0], ops.lstsq(a, b)[0])
        given = a.clone().requires_grad_()
        torch.linalg.lstsq(given, b).solution.square().sum().backward()
        with pytest.raises(UnsupportedError, match="gelsd"):
            torch.linalg.lstsq(a, b, driver="gelsd")
        with pytest.raises(OutOfRangeError, match="full rank"):
            torch.linalg.lstsq(a * 0, b)
    wanted = a.clone().requires_grad_()
    ops.sum(ops.square(ops.lstsq(wanted, b)[0])).backward()
    assert given.grad is not None and wanted.grad is not None
    assert_same_bits(given.grad, wanted.grad)


def test_lstsq__the_derivative_of_what_is_repeated_is_the_contracts_sum() -> None:
    a, b = uniform(1, 1500, 4, 2), uniform(2, 1, 4, 3).requires_grad_()
    each = b.detach().repeat(1500, 1, 1).requires_grad_()
    grad = uniform(3, 1500, 2, 3)
    (got,) = torch.autograd.grad(ops.lstsq(a, b, driver="gels")[0], b, grad)
    (parts,) = torch.autograd.grad(ops.lstsq(a, each, driver="gels")[0], each, grad)
    assert_same_bits(got, ops.sum(parts, 0, keepdim=True))
