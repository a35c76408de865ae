"""`repdl.enable`: complex numbers, of which sums, differences, products and polar coordinates are computed by parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from enabling import same, torchs_own_afterwards, values

import repdl
from repdl import ops
from repdl.errors import DTypeError, UnsupportedError

__all__ = ["torchs_own_afterwards"]  # a fixture of every test here

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
        (lambda z: z.sum(), "complex64"),
        (lambda z: z @ z, "complex64"),
        (lambda z: torch.add(z, z, alpha=2), "alpha is 2"),
        (lambda z: torch.polar(z.real.double(), z.real.double()), "abs.dtype is float64, expected float32"),
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
