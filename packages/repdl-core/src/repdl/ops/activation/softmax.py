"""softmax and log_softmax, their backwards, and what follows from them: softmin, gumbel_softmax."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes
from repdl.errors import UnsupportedError, check, check_dtype, check_size
from repdl.generators.draws import blank, draw
from repdl.generators.generator import Generator, chosen
from repdl.ops.common import as_numpy, constant, in_dtype, narrowed, normalize_dim, to_requested_dtype
from repdl.ops.declare import public
from repdl.ops.pointwise.cast import cast
from repdl.registry import FLOAT32_ON_CUDA, as_float, as_int, define, functions as _ops

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]


def _check_dim(op: str, input: Tensor, dim: int) -> None:
    high = input.dim() or 1
    check(op, 0 <= dim < high, lambda: f"dim is {dim}, expected 0 to {high - 1}; repdl.ops.{op} normalises it")


def _check_backward(op: str, grad: Tensor, output: Tensor, dim: int) -> None:
    check_size(op, "grad.shape", grad.shape, output.shape, "output.shape")
    _check_dim(op, output, dim)


def _define(name: str, double_backward: Callable[..., Any]) -> Callable[[Tensor, int, str], Tensor]:
    """Register `name(input, dim)` and `name_backward(grad, output, dim)`;
    `double_backward(g, grad, output, dim, contract)` gives the gradients of the latter's grad and output."""
    define(
        f"{name}_backward",
        "(Tensor grad, Tensor output, int dim, str contract) -> Tensor",
        check=_check_backward,
        fake=lambda grad: grad.new_empty(grad.shape),
        gradients={("grad", "output"): double_backward},
        family="softmax",
        dtypes=Dtypes(),
    )
    return define(
        name,
        "(Tensor input, int dim, str contract) -> Tensor",
        check=_check_dim,
        fake=lambda input: input.new_empty(input.shape),
        gradients={"input": f"{name}_backward"},
        family="softmax",
        dtypes=Dtypes(),
        autocast=FLOAT32_ON_CUDA,
    )


def _sum(x: Tensor, dim: int, contract: str) -> Tensor:
    return _ops.sum(x, [dim] if x.dim() else [], True, contract)


def _softmax_twice(g: Tensor, grad: Tensor, output: Tensor, dim: int, contract: str) -> tuple[Tensor, Tensor]:
    s = _sum(_ops.mul(grad, output, contract), dim, contract)
    t = _sum(_ops.mul(g, output, contract), dim, contract)
    left = _ops.mul(g, _ops.sub(grad, s, contract), contract)
    to_output = _ops.sub(left, _ops.mul(grad, t, contract), contract)
    return _ops.softmax_backward(g, output, dim, contract), to_output


def _log_softmax_twice(g: Tensor, grad: Tensor, output: Tensor, dim: int, contract: str) -> tuple[Tensor, Tensor]:
    weighted = _ops.mul(g, _ops.exp(output), contract)
    return (
        _ops.sub(g, _sum(weighted, dim, contract), contract),
        _ops.neg(_ops.mul(weighted, _sum(grad, dim, contract), contract)),
    )


_softmax = _define("softmax", _softmax_twice)
_log_softmax = _define("log_softmax", _log_softmax_twice)


def _options(
    op: str, input: Tensor, dim: int | None, third: int | torch.dtype, dtype: torch.dtype | None, axis: int | None
) -> tuple[int, torch.dtype | None]:
    """The dimension and the dtype. The third position is a number that warnings of
    torch.nn.functional need, or the dtype, as in torch.softmax."""
    if isinstance(third, torch.dtype):
        check(op, dtype is None, lambda: f"dtype is given twice, {third} and {dtype}; expected it once")
        dtype = third
    elif third is not None:
        as_int(op, "_stacklevel", third)
    dim, _ = as_numpy(op, dim, False, axis, None)
    if dim is None:
        raise UnsupportedError(f"{op}: dim is None, expected the dimension to normalise over; pass dim=")
    return normalize_dim(op, dim, input.dim()), dtype


@public("softmax")
def softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int | torch.dtype = 3,
    dtype: torch.dtype | None = None,
    *,
    axis: int | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`exp(input) / sum(exp(input))` along `dim`, any shape, any floating-point dtype. `axis` is another name of `dim`.

    Raises:
        UnsupportedError: if `dim` is None, which torch deprecates, or `dtype` is no dtype of the contract.
    """
    position, dtype = _options("softmax", input, dim, _stacklevel, dtype, axis)
    return to_requested_dtype(_softmax(in_dtype("softmax", input, dtype), position, contract), dtype)


@public("softmax")
def softmin(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int | torch.dtype = 3,
    dtype: torch.dtype | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`softmax(-input, dim)`, any shape, any floating-point dtype.

    Raises:
        UnsupportedError: if `dim` is None, which torch deprecates, or `dtype` is no dtype of the contract.
    """
    position, dtype = _options("softmin", input, dim, _stacklevel, dtype, None)
    negative = _ops.neg(in_dtype("softmin", input, dtype))
    return to_requested_dtype(_softmax(negative, position, contract), dtype)


@public("softmax")
def log_softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int | torch.dtype = 3,
    dtype: torch.dtype | None = None,
    *,
    axis: int | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """The logarithm of `softmax(input, dim)` without its underflow, any shape, any floating-point dtype.
    `axis` is another name of `dim`.

    Raises:
        UnsupportedError: if `dim` is None, which torch deprecates, or `dtype` is no dtype of the contract.
    """
    position, dtype = _options("log_softmax", input, dim, _stacklevel, dtype, axis)
    return to_requested_dtype(_log_softmax(in_dtype("log_softmax", input, dtype), position, contract), dtype)


@public("softmax", uncached="draws from a generator")
def gumbel_softmax(
    logits: Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`softmax((logits + n) / tau, dim)` with a draw n from the Gumbel distribution, any shape.

    Any floating-point dtype.

    With `hard` it is 1 at the largest element of each row, the first of equal ones, and 0 elsewhere, up to a
    rounding, with the derivative of the soft one. `eps` has no effect, as in torch.

    Raises:
        ShapeError: if `dim` does not exist; nothing is drawn.
    """
    op = "gumbel_softmax"
    check_dtype(op, ALL, logits=logits)
    chosen(op, generator)
    position, temperature = normalize_dim(op, dim, logits.dim()), as_float(op, "tau", tau)
    if eps != 1e-10:
        warnings.warn("gumbel_softmax: eps is deprecated by torch and has no effect", stacklevel=2)
    wide = logits if logits.dtype is torch.float64 else narrowed(logits, torch.float32)
    like = blank(logits.shape, wide.dtype, logits.device)
    noise = _ops.neg(_ops.log(draw(op, "exponential", like, generator, 1.0)))
    scaled = _ops.div(_ops.add(wide, noise, contract), constant(temperature, wide.dtype, wide.device), contract)
    soft = _softmax(scaled, position, contract)
    if hard and soft.numel():
        highest = _ops.max_dim(soft.detach(), position, True)[1]
        ones = torch.zeros_like(soft).scatter_(position, highest, 1.0)
        soft = _ops.add(_ops.sub(ones, soft.detach(), contract), soft, contract)
    return cast(soft, logits.dtype)
