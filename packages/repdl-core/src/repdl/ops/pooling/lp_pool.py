"""Power averages over windows: powers, their average, and the root."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes.rounding import div
from repdl.errors import check, check_dim
from repdl.ops.common import constant, narrowed, widened
from repdl.ops.declare import of_sides
from repdl.ops.pointwise.pow import pow
from repdl.ops.pooling._windows import check_least, per_side
from repdl.ops.pooling.avg_pool import avg_pool1d, avg_pool2d, avg_pool3d
from repdl.registry import as_float, functions as _ops

__all__ = ["lp_pool1d", "lp_pool2d", "lp_pool3d"]

Ints = int | Sequence[int]
_AVERAGES: tuple[Callable[..., Tensor], ...] = (avg_pool1d, avg_pool2d, avg_pool3d)


def _power(input: Tensor, exponent: float, contract: str) -> Tensor:
    """`pow(input, exponent)`, of a square or a root by the op of that name, which has the same bits."""
    if exponent == 2:
        return _ops.square(input)
    if exponent == 0.5:
        return _ops.sqrt(input)
    return input if exponent == 1 else pow(input, exponent, contract=contract)


def _lp_pool(
    dims: int,
    input: Tensor,
    norm_type: int | float,
    kernel_size: Ints,
    stride: Ints | None = None,
    ceil_mode: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """The p-norm of each window: `(N, C, {sides}) -> (N, C, {out})`, p = `norm_type`, without absolute values.

    `pow(avg_pool{n}d(pow(input, p)) * k, 1 / p)`, k the number of elements of a window. Any floating-point
    dtype. NaN where an odd p gives a negative sum.

    Raises:
        ShapeError: if the kernel is larger than the input, or an option out of range.
        DTypeError: if `input` is of no dtype of the contract.
    """
    op = f"lp_pool{dims}d"
    check_dim(op, (dims + 1, dims + 2), input=input)
    norm = as_float(op, "norm_type", norm_type)
    check(op, norm != 0, "norm_type is 0, expected another number")
    kernel = per_side(op, "kernel_size", kernel_size, dims)
    check_least(op, 1, kernel_size=kernel)
    storage, (wide,) = widened(input)
    average = _AVERAGES[dims - 1](_power(wide, norm, contract), kernel, stride, 0, ceil_mode, contract=contract)
    # The average is not negative but for odd powers; as in torch, what is below 0 counts with its sign as NaN's power.
    size = _ops.mul(_ops.sign(average), _ops.relu(_ops.abs(average)), contract)
    total = _ops.mul(size, constant(math.prod(kernel), size.dtype, size.device), contract)
    inverse = 1.0 / norm if torch.compiler.is_compiling() else div(1.0, norm)  # Dynamo can't trace the second
    return narrowed(_power(total, inverse, contract), storage)


lp_pool1d, lp_pool2d, lp_pool3d = of_sides(_lp_pool, "lp_pool", "sum")
