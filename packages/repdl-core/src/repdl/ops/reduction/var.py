"""Variances and standard deviations: a mean, and the mean of squared deviations from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes, rounding
from repdl.errors import check, check_dtype
from repdl.ops.common import as_numpy, constant, narrowed, normalize_dims, widened
from repdl.ops.declare import variants
from repdl.ops.reduction.sum import check_dims
from repdl.registry import as_float, composite, functions as _ops

__all__ = ["std", "std_mean", "var", "var_mean"]

Dims = int | Sequence[int]


def _formula(input: Tensor, dim: Sequence[int], correction: float, keepdim: bool, contract: str) -> Tensor:
    """`sum(square(x - mean(x))) / max(n - correction, 0)`."""
    count = 1
    for d in dim:
        count *= input.shape[d]
    deviations = _ops.sub(input, _ops.mean(input, dim, True, contract), contract)
    total = _ops.sum_of_squares(deviations, dim, keepdim, contract)
    left = rounding.difference(float(count), correction)
    divisor = constant(left if left > 0 else 0.0, total.dtype, total.device)
    return _ops.div(total, divisor, contract)


composite(
    "var",
    "(Tensor input, int[] dim, float correction, bool keepdim, str contract) -> Tensor",
    _formula,
    calls=("sub", "sum", "sum_of_squares", "div"),
    check=check_dims,
    dtypes=Dtypes(),
)


def _std(input: Tensor, dims: Sequence[int], correction: float, keepdim: bool, contract: str) -> Tensor:
    """`sqrt(var(x))`, of 16-bit floats rounded once."""
    dtype, (wide,) = widened(input)
    return narrowed(_ops.root(_ops.var(wide, dims, correction, keepdim, contract)), dtype)


def _given(
    op: str,
    input: Tensor,
    dim: Any,
    unbiased: bool | None,
    keepdim: bool,
    correction: float | None,
    axis: Any,
    keepdims: bool | None,
) -> tuple[list[int], float, bool]:
    """Dimensions, correction and keepdim, as torch's three signatures have them."""
    if isinstance(dim, bool):
        check(op, unbiased is None, lambda: f"dim is {dim} and unbiased is {unbiased}, expected one of them")
        dim, unbiased = None, dim
    dim, keepdim = as_numpy(op, dim, keepdim, axis, keepdims)
    if unbiased is not None:
        check(op, correction is None, lambda: f"unbiased is {unbiased}, correction {correction}, expected one of them")
        correction = 1.0 if unbiased else 0.0
    check_dtype(op, ALL, input=input)
    dims = normalize_dims(op, dim, input.dim())
    return dims, 1.0 if correction is None else as_float(op, "correction", correction), keepdim


def _spread(
    op: str,
    input: Tensor,
    dim: Dims | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    axis: Dims | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    dims, left, keepdim = _given(op, input, dim, unbiased, keepdim, correction, axis, keepdims)
    return (_ops.var if op == "var" else _std)(input, dims, left, keepdim, contract)


def _spread_and_mean(
    op: str,
    input: Tensor,
    dim: Dims | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    axis: Dims | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> tuple[Tensor, Tensor]:
    dims, left, keepdim = _given(op, input, dim, unbiased, keepdim, correction, axis, keepdims)
    spread = (_ops.var if op == "var_mean" else _std)(input, dims, left, keepdim, contract)
    return spread, _ops.mean(input, dims, keepdim, contract)


_DOCS = {
    "var": """Variance over all dimensions, or over those in `dim`: `sum(square(x - mean(x))) / max(n - correction, 0)`.

    Any floating-point dtype. `correction` is 1 by default; `unbiased`, or a bool in the place of `dim`, is an
    older name of 1 and 0.

    Raises:
        ShapeError: if a dimension does not exist or is named twice, or both correction and unbiased are given.
    """,
    "std": """Standard deviation over all dimensions, or over those in `dim`: `sqrt(var(x))`, with the options of `var`.

    Its derivative at 0 is 0.

    Raises:
        ShapeError: if a dimension does not exist or is named twice, or both correction and unbiased are given.
    """,
}
_DOCS_WITH_MEAN = {
    "var_mean": """`var` and `mean` over all dimensions, or over those in `dim`, with the options of `var`.

    Raises:
        ShapeError: if a dimension does not exist or is named twice, or both correction and unbiased are given.
    """,
    "std_mean": """`std` and `mean` over all dimensions, or over those in `dim`, with the options of `var`.

    Raises:
        ShapeError: if a dimension does not exist or is named twice, or both correction and unbiased are given.
    """,
}
var, std = variants(_spread, "var", _DOCS)
var_mean, std_mean = variants(_spread_and_mean, "var", _DOCS_WITH_MEAN)
