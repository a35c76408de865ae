"""Running sums, products, extremes and sums of exponentials, and the recurrence behind products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import UnsupportedError, check, check_size
from repdl.ops.common import (
    as_numpy,
    can_pack,
    constant,
    in_dtype,
    is_whole,
    normalize_dim,
    packed,
    places_of,
    sort_key,
    to_integer_dtype,
    to_requested_dtype,
)
from repdl.ops.common.arithmetic import mul
from repdl.ops.declare import public, variants
from repdl.ops.indexing.gather import at_least_1d, gather
from repdl.registry import FLOAT32_ON_CUDA, composite, define, functions as _ops

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]


def _check_dim(op: str, input: Tensor, dim: int) -> None:
    high = input.dim()
    check(op, 0 <= dim < high, lambda: f"dim is {dim}, expected 0 to {high - 1}; repdl.ops.{op} normalises it")


define(
    "cumsum",
    "(Tensor input, int dim, str contract) -> Tensor",
    check=_check_dim,
    fake=lambda input: input.new_empty(input.shape),
    gradients={"input": lambda g, dim, contract: _ops.cumsum(g.flip(dim), dim, contract).flip(dim)},
    dtypes=Dtypes(),
    autocast=FLOAT32_ON_CUDA,
    family="scan",
)


def _check_scan(op: str, factor: Tensor, term: Tensor, dim: int) -> None:
    check_size(op, "term.shape", term.shape, factor.shape, "factor.shape")
    _check_dim(op, term, dim)


def _to_term(g: Tensor, factor: Tensor, dim: int) -> Tensor:
    """h[i] = fma(factor[i + 1], h[i + 1], g[i]): the same recurrence, from the end."""
    return _ops.linear_scan(factor.flip(dim).roll(1, dim), g.flip(dim), dim).flip(dim)


def _to_factor(to_term: Tensor, output: Tensor, dim: int) -> Tensor:
    product = mul(to_term, output.roll(1, dim))
    none = torch.zeros_like(to_term.narrow(dim, 0, min(1, to_term.shape[dim])))  # factor[0] is not read
    return torch.cat([none, product.narrow(dim, none.shape[dim], product.shape[dim] - none.shape[dim])], dim)


define(
    "linear_scan",
    "(Tensor factor, Tensor term, int dim) -> Tensor",
    check=_check_scan,
    fake=lambda term: term.new_empty(term.shape),
    gradients={"factor": _to_factor, "term": _to_term},
    dtypes=Dtypes(),
    family="scan",
)


def _product(input: Tensor, dim: int) -> Tensor:
    """`y[i] = y[i - 1] * x[i]` as `fma(x[i], y[i - 1], -0)`, which is the product with its sign."""
    if input.shape[dim] == 0:
        return input.clone()
    first, rest = input.split([1, input.shape[dim] - 1], dim)
    one, zero = (constant(v, input.dtype, input.device) for v in (1.0, -0.0))
    factor = torch.cat([one.expand(first.shape), rest], dim)
    return _ops.linear_scan(factor, torch.cat([first, zero.expand(rest.shape)], dim), dim)


composite(
    "cumprod",
    "(Tensor input, int dim) -> Tensor",
    _product,
    calls=("linear_scan",),
    check=_check_dim,
    dtypes=Dtypes(),
    autocast=FLOAT32_ON_CUDA,
    family="scan",
)


def _sums_of_exp(input: Tensor, dim: int, contract: str) -> Tensor:
    """Of the last 2, 4, ... elements that end at each: two halves joined, or all of fewer."""
    size, step, sums = input.shape[dim], 1, input
    while step < size:
        later, before = sums.narrow(dim, step, size - step), sums.narrow(dim, 0, size - step)
        sums = torch.cat([sums.narrow(dim, 0, step), _ops.logaddexp(later, before, contract)], dim)
        step *= 2
    return sums.clone() if step == 1 else sums


composite(
    "logcumsumexp",
    "(Tensor input, int dim, str contract) -> Tensor",
    _sums_of_exp,
    calls=("logaddexp",),
    check=_check_dim,
    dtypes=Dtypes(),
    family="scan",
)


def _scanned(op: str, input: Tensor, dim: int | None, dtype: torch.dtype | None, run: Callable[..., Tensor]) -> Tensor:
    if dim is None:
        raise UnsupportedError(f"{op}: dim is None, expected a dimension; pass dim=")
    position = normalize_dim(op, dim, input.dim())
    if is_whole(dtype or input.dtype) and not input.is_complex():
        return getattr(torch, op)(to_integer_dtype(input, dtype), position, dtype=dtype)
    wide = in_dtype(op, input, dtype)
    result = run(wide.unsqueeze(0) if wide.dim() == 0 else wide, position)
    return to_requested_dtype(result.reshape(input.shape), dtype)


@public("scan")
def cumsum(
    input: Tensor,
    dim: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    axis: int | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """The sums of the first 1, 2, ... elements along `dim`, any shape, any floating-point dtype; integers exactly.

    A chain of additions in each block of 1024, to which the sum before the block is added. The gradient is
    that of the elements behind: the same sums from the end.

    Raises:
        UnsupportedError: if `dim` is None, or `dtype` is no dtype of the contract.
    """
    dim, _ = as_numpy("cumsum", dim, False, axis, None)
    return _scanned("cumsum", input, dim, dtype, lambda x, d: _ops.cumsum(x, d, contract))


@public("scan")
def cumprod(
    input: Tensor,
    dim: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    axis: int | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """The products of the first 1, 2, ... elements along `dim`, any shape, any floating-point dtype; integers exactly.

    One product after the other. The derivative divides by nothing, so zeros have theirs.

    Raises:
        UnsupportedError: if `dim` is None, or `dtype` is no dtype of the contract.
    """
    dim, _ = as_numpy("cumprod", dim, False, axis, None)
    return _scanned("cumprod", input, dim, dtype, _ops.cumprod)


@public("scan")
def logcumsumexp(
    input: Tensor, dim: int | None = None, *, axis: int | None = None, contract: ContractLike = None
) -> Tensor:
    """`log(exp(x_0) + ... + exp(x_i))` for each i along `dim`, without overflow; any shape, any floating-point dtype.

    `logaddexp` of elements, then of what is of two, of four, and so on: as many roundings as the logarithm of i.

    Raises:
        UnsupportedError: if `dim` is None.
    """
    op = "logcumsumexp"
    dim, _ = as_numpy(op, dim, False, axis, None)
    if dim is None:
        raise UnsupportedError(f"{op}: dim is None, expected a dimension; pass dim=")
    position = normalize_dim(op, dim, input.dim())
    return _ops.logcumsumexp(at_least_1d(input), position, contract).reshape(input.shape)


def running(extreme: Callable[..., Tensor], numbers: Tensor, dim: int) -> Tensor:
    """The extreme of the first 1, 2, ... integers: of 2, 4, ... that end at each.

    torch's cummax may take another index of equal elements on another device.
    """
    size, step = numbers.shape[dim], 1
    while step < size:
        later = extreme(numbers.narrow(dim, step, size - step), numbers.narrow(dim, 0, size - step))
        numbers, step = torch.cat([numbers.narrow(dim, 0, step), later], dim), 2 * step
    return numbers


def _last_extremes(op: str, values: Tensor, dim: int) -> Tensor:
    """Where the extreme of the first 1, 2, ... elements along `dim` is, the last of equal ones."""
    is_least = op == "cummin"
    if can_pack(values, dim):
        return places_of(np.maximum.accumulate(packed(values, dim, descending=is_least, nan_is_least=is_least), dim))
    keys = sort_key(values).to(torch.int64)
    if is_least and values.is_floating_point():
        keys = torch.where(values.detach().isnan(), torch.iinfo(torch.int64).min, keys)
    extremes = running(torch.minimum if is_least else torch.maximum, keys, dim)
    n, ndim = values.shape[dim], values.dim()
    steps = torch.arange(n, device=values.device).reshape([n if d == dim else 1 for d in range(ndim)])
    return running(torch.maximum, torch.where(keys == extremes, steps, 0), dim)


def _extremes(
    op: str, input: Tensor, dim: int | None = None, *, axis: int | None = None, contract: ContractLike = None
) -> torch.return_types.cummax:
    dim, _ = as_numpy(op, dim, False, axis, None)
    if dim is None:
        raise UnsupportedError(f"{op}: dim is None, expected a dimension; pass dim=")
    position = normalize_dim(op, dim, input.dim())
    values = at_least_1d(input)
    indices = _last_extremes(op, values, position)
    found = gather(values, position, indices, contract=contract), indices
    return getattr(torch.return_types, op)([t.reshape(input.shape) for t in found])  # type: ignore[no-any-return]


_DOCS = {
    "cummax": """
    The largest of the first 1, 2, ... elements along `dim`, a named tuple `(values, indices)`, floats or integers.

    Of equal elements the index is the last one's. NaN is larger than everything. The gradient of an element is
    the contract's sum of those of the results that it is.

    Raises:
        UnsupportedError: if `dim` is None.
    """,
    "cummin": """
    The smallest of the first 1, 2, ... elements along `dim`, a named tuple `(values, indices)`, floats or integers.

    Of equal elements the index is the last one's. NaN is smaller than everything. The gradient of an element is
    the contract's sum of those of the results that it is.

    Raises:
        UnsupportedError: if `dim` is None.
    """,
}
cummax, cummin = variants(_extremes, "max", _DOCS, uncached="the order of integers computes it")
