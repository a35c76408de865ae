"""`repdl.enable`: complex numbers. Sums, means, differences, products and polar coordinates are computed by parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from enabling import same, values

import repdl
from repdl import ops
from repdl.errors import DTypeError, UnsupportedError

set_flush_denormal = torch.set_flush_denormal  # torch's own, also while another one is in its place


def _z(*shape: int) -> torch.Tensor:
    return torch.view_as_complex(values(*shape, 2))


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "broadcast": lambda x, y: x[:1] * y,
    "conjugate": lambda x, y: x.conj() * y + x * y.conj(),
    "a real tensor": lambda x, y: x * y.real + y.imag,
    "numbers": lambda x, y: (x * 2.5 - 1) * (1 - 3j) + 2j - (1j - y),
    "numbers beside real tensors": lambda x, y: x.real * 2j - (1j - y.imag) + (y.real + 1j),
    "in place": lambda x, y: x.clone().mul_(y).add_(x).sub_(1j),
    "given memory": lambda x, y: torch.mul(x, y, out=torch.empty_like(x)) if not x.requires_grad else x * y,
    "double": lambda x, y: x.to(torch.complex128) * y,
    "sum": lambda x, y: x.sum() + (x * y).sum(0) + y.sum((0, -1), keepdim=True),
    "mean": lambda x, y: x.mean() * y.conj().mean(-1, keepdim=True),
    "sums of another dtype": lambda x, y: (
        x.sum(1, dtype=torch.complex128) + y.sum() * y.real.detach().sum(dtype=torch.complex64)
    ),
    "sum of views": lambda x, y: x.t().conj().sum(0) - y[:, ::2].mean(1),
    "sums in given memory": lambda x, y: (
        (x * y).sum(0) if x.requires_grad else torch.sum(x * y, 0, out=torch.empty_like(x[0]))
    ),
    "derivative of expand": lambda x, y: x[:, :1].expand(4, 5) * y[:, :1],
}


@pytest.mark.parametrize("name", CALLS)
def test_enable__complex_arithmetic_is_near_torchs(name: str) -> None:
    """Of numbers of magnitude up to about 5: a few roundings of at most 100."""
    x, y = _z(4, 3).requires_grad_(), (_z(4, 3) * 0.5 + 1).detach().requires_grad_()
    exact = [t.detach().to(torch.complex128).requires_grad_() for t in (x, y)]
    with repdl.enabled():
        found = CALLS[name](x, y)
        grads = torch.autograd.grad(torch.view_as_real(found).sum(), (x, y))
        plain = CALLS[name](x.detach(), y.detach())
    wanted = CALLS[name](*exact)
    others = torch.autograd.grad(torch.view_as_real(wanted).sum(), exact)
    for got, expected in zip((found, *grads), (wanted, *others)):
        assert got.shape == expected.shape and (got - expected).abs().max() < 100 * 2.0**-20
    assert torch.equal(torch.view_as_real(plain), torch.view_as_real(found.detach()))


def test_enable__complex_products_are_those_of_their_parts() -> None:
    x, y = _z(50, 7), _z(7)
    a, b, c, d = x.real.contiguous(), x.imag.contiguous(), y.real.contiguous(), y.imag.contiguous()
    with repdl.enabled():
        product, angles = x * y, torch.polar(a, b)
    assert same(product.real.contiguous(), ops.sub(ops.mul(a, c), ops.mul(b, d)))
    assert same(product.imag.contiguous(), ops.add(ops.mul(a, d), ops.mul(b, c)))
    assert same(angles.real.contiguous(), ops.mul(a, ops.cos(b)))
    assert same(angles.imag.contiguous(), ops.mul(a, ops.sin(b)))


def test_enable__complex_sums_are_those_of_their_parts() -> None:
    for z in (_z(700, 9), _z(3, 70, 2).to(torch.complex128), _z(0, 3), _z()):
        a, b = z.real.contiguous(), z.imag.contiguous()
        dims: list[Any] = [None, *range(z.dim()), *([(0, -1)] if z.dim() > 1 else [])]
        calls = [(name, dim) for name in ("sum", "mean") for dim in dims]
        with repdl.enabled():
            results = [getattr(torch, n)(z) if d is None else getattr(torch, n)(z, d, keepdim=True) for n, d in calls]
        for (name, dim), found in zip(calls, results):
            for part, of in ((found.real, a), (found.imag, b)):
                expected = getattr(ops, name)(of, dim, keepdim=dim is not None)
                assert same(part.contiguous(), expected), (name, dim, z.shape)


def test_enable__rotary_positions_of_complex_numbers() -> None:
    x, angle = values(2, 5, 4, 8).requires_grad_(), values(5, 4)

    def rotated() -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(2, 5, 4, 4, 2))
        turns = torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)

    wanted = rotated()
    (expected,) = torch.autograd.grad(wanted.square().sum(), x)
    with repdl.enabled():
        found = rotated()
        (grad,) = torch.autograd.grad(found.square().sum(), x)
    assert (found - wanted).abs().max() < 1e-5 and (grad - expected).abs().max() < 1e-5


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda z: z / z, "complex64"),
        (lambda z: z.abs(), "complex64"),
        (lambda z: z.exp(), "complex64"),
        (lambda z: z.sum(dtype=torch.float32), "sum: dtype is float32 with complex64 input, expected complex"),
        (lambda z: z.to(torch.complex32).mean(), "complex32"),
        (lambda z: z @ z, "complex64"),
        *((lambda z, call=call: call(z, z, alpha=2), "alpha is 2") for call in (torch.add, torch.sub, torch.rsub)),
        (lambda z: torch.rsub(z, 1, alpha=2), "alpha is 2"),
        (lambda z: z.to(torch.complex32) * z.to(torch.complex32), "complex32"),
    ],
)
def test_enable__other_complex_functions_are_refused(call: Callable[[torch.Tensor], Any], message: str) -> None:
    with repdl.enabled(), pytest.raises((UnsupportedError, DTypeError), match=message):
        call(_z(3, 3))


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor flushes no subnormal numbers")
def test_enable__complex_numbers_are_not_flushed() -> None:
    z, w = torch.complex(torch.tensor([1e-40, 1.0]), torch.tensor([2e-41, 3.0])), _z(2).to(torch.complex128)
    calls = [lambda: z * w, lambda: z.real.contiguous() * w, lambda: z + z.imag.contiguous(), lambda: z * z]
    with repdl.enabled():
        expected = [torch.view_as_real(call()) for call in calls]
        set_flush_denormal(True)
        try:
            found = [torch.view_as_real(call()) for call in calls]
        finally:
            torch.set_flush_denormal(False)
    assert all(same(a, b) for a, b in zip(found, expected))


def test_enable__polar_of_doubles() -> None:
    size, angle = _z(3, 3).real.double(), _z(3, 3).imag.double()
    with repdl.enabled():
        found = torch.polar(size, angle)
    assert found.dtype is torch.complex128
    assert torch.equal(found.real, repdl.ops.mul(size, repdl.ops.cos(angle)))
