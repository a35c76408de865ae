"""Sums, means, differences and products of complex numbers, by their parts: rotary positions are made of these."""

from __future__ import annotations

from typing import Any

import torch

from repdl import ops
from repdl.callcache import do_not_cache
from repdl.errors import DTypeError, UnsupportedError, check_dtype
from repdl.ops.common import floating
from repdl.overrides.negated import negative

Tensor = torch.Tensor
_DTYPES = torch.complex64, torch.complex128


def _parts(op: str, input: Any, other: Any) -> list[tuple[Tensor, Tensor]]:
    """Real and imaginary parts of both, of the dtype that torch promotes them to."""
    do_not_cache()
    dtype = torch.result_type(input, other)
    if dtype not in _DTYPES:
        raise DTypeError(f"{op}: the operands' common dtype is {dtype}, expected complex64 or complex128")
    found = []
    for value in (input, other):
        if isinstance(value, Tensor) and value.is_complex():
            parts = floating(torch.view_as_real(value.resolve_conj()), dtype.to_real())
            found.append((parts[..., 0], parts[..., 1]))
        else:
            of = complex(value) if not isinstance(value, Tensor) else None
            like = input if isinstance(input, Tensor) else other
            real = floating(value, dtype.to_real()) if of is None else like.new_tensor(of.real, dtype=dtype.to_real())
            found.append((real, torch.zeros_like(real) if of is None else torch.full_like(real, of.imag)))
    return found


def _joined(real: Tensor, imaginary: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack([real, imaginary], -1))


def add(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    """`(a + c) + (b + d) i`"""
    (a, b), (c, d) = _unscaled("add", input, other, alpha)
    return _joined(ops.add(a, c), ops.add(b, d))


def sub(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    """`(a - c) + (b - d) i`"""
    (a, b), (c, d) = _unscaled("sub", input, other, alpha)
    return _joined(ops.sub(a, c), ops.sub(b, d))


def rsub(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    """`sub(other, input)`"""
    return sub(other, input, alpha)


def mul(input: Any, other: Any) -> Tensor:
    """`(a * c - b * d) + (a * d + b * c) i`, three roundings each."""
    (a, b), (c, d) = _parts("mul", input, other)
    return _joined(ops.sub(ops.mul(a, c), ops.mul(b, d)), ops.add(ops.mul(a, d), ops.mul(b, c)))


def neg(input: Tensor) -> Tensor:
    """`(-a) + (-b) i`"""
    do_not_cache()
    return negative(input.resolve_conj().resolve_neg())


def sum(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    """`sum(a) + sum(b) i`"""
    return _reduced("sum", input, dim, keepdim, dtype)


def mean(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    """`mean(a) + mean(b) i`"""
    return _reduced("mean", input, dim, keepdim, dtype)


def _reduced(op: str, input: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """Over the parts, which have the dtype that was asked for."""
    made = input.dtype if dtype is None else dtype
    if made not in _DTYPES:
        given = "" if dtype is None else f"dtype is {_shown(dtype)} with {_shown(input.dtype)} input"
        raise UnsupportedError(
            f"{op}: {given or f'input.dtype is {_shown(made)}'}, expected complex64 or complex128, or real numbers, "
            f"for example the input's .real"
        )
    do_not_cache()
    if not input.is_complex():
        parts = [floating(input, made.to_real())]
        parts.append(torch.zeros_like(parts[0]))
    else:
        parts = [*floating(torch.view_as_real(input.resolve_conj()), made.to_real()).unbind(-1)]
    real, imaginary = (getattr(ops, op)(part, dim, keepdim) for part in parts)
    return _joined(real, imaginary)


def _shown(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """`abs * cos(angle) + abs * sin(angle) i`"""
    check_dtype("polar", (torch.float32, torch.float64), abs=abs, angle=angle)
    do_not_cache()
    return _joined(ops.mul(abs, ops.cos(angle)), ops.mul(abs, ops.sin(angle)))


def _unscaled(op: str, input: Any, other: Any, alpha: Any) -> list[tuple[Tensor, Tensor]]:
    if alpha != 1:
        raise UnsupportedError(f"{op}: alpha is {alpha} beside complex numbers, expected 1")
    return _parts(op, input, other)


__all__ = ["add", "mean", "mul", "neg", "polar", "rsub", "sub", "sum"]
