"""Functions that add to, or replace, elements by index: formulas over `index_sum`, without atomics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.contract import ContractLike, contract_name
from repdl.dtypes import ALL
from repdl.errors import DTypeError, check, check_dim, check_dtype, check_range, check_size
from repdl.ops.common import as_index, check_index, floating, indexed, is_whole, normalize_dim, places
from repdl.ops.declare import public
from repdl.ops.indexing._index_reduce import MODES, added, reduced
from repdl.ops.indexing.gather import at_least_1d, check_places, elements
from repdl.ops.pointwise.elementwise import div, mul, sub
from repdl.registry import as_float, as_int, computes, functions as _ops

__all__ = ["bincount", "index_add", "index_put", "index_reduce", "scatter_add", "scatter_reduce"]


def _check_pair(op: str, input: Tensor, name: str, other: Tensor) -> None:
    if other.dtype is not input.dtype:
        raise DTypeError(f"{op}: {name}.dtype is {other.dtype}, expected {input.dtype} (= input.dtype)")
    if not is_whole(input.dtype):
        check_dtype(op, ALL, input=input)


def _slices(op: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[int, Tensor, Tensor]:
    """`dim`, the index as it is checked, and `source`, both at least 1-D."""
    dim = normalize_dim(op, dim, input.dim())
    check_dim(op, (0, 1), index=index)
    _check_pair(op, input, "source", source)
    to, at, terms = at_least_1d(input), at_least_1d(index), at_least_1d(source)
    shape = [at.shape[0] if d == dim else n for d, n in enumerate(to.shape)]
    check_size(op, "source.shape", list(terms.shape), shape, "input.shape with the length of index in dim")
    return dim, as_index(op, at, to.shape[dim]), terms


@public("index_sum")
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1, contract: ContractLike = None
) -> Tensor:
    """`input` with slices of `source` added: `(A, B), (K), (K, B) -> (A, B)` for `dim=0`, any floating-point dtype.

    `input + alpha * s`, one fused multiply-add, where s is the sum of the slices with the same index, in ascending
    order. Integers and bools are torch's, which are exact.

    Args:
        index: (K), int64 or int32: the slice of `input` that each slice of `source` is added to.
        source: of the sizes of `input`, but K in `dim`.
        alpha: a number.

    Raises:
        ShapeError: if the sizes do not fit.
        OutOfRangeError: if an index is not from 0 to the size of `dim` less one, or `dim` does not exist.
        DTypeError: if `source` has another dtype than `input`, or this is none of the contract.
    """
    op = "index_add"
    dim, at, terms = _slices(op, input, dim, index, source)
    if is_whole(input.dtype):
        return torch.index_add(input, dim, at, source, alpha=alpha)
    factor = as_float(op, "alpha", alpha)
    return _by_rows(lambda table, rows: added(table, at, rows, factor, contract), input, dim, terms)


def _by_rows(function: Callable[[Tensor, Tensor], Tensor], input: Tensor, dim: int, terms: Tensor) -> Tensor:
    """A function of slices along `dim` as rows of matrices."""
    table, slices = at_least_1d(input).movedim(dim, 0), terms.movedim(dim, 0)
    columns = math.prod(table.shape[1:])
    output = function(table.reshape(table.shape[0], columns), slices.reshape(slices.shape[0], columns))
    return output.view(table.shape).movedim(0, dim).contiguous().view(input.shape)


def _index_of_slices(to: Tensor, dim: int, index: Tensor) -> Tensor | None:
    """The index along `dim` alone, if it is repeated along every other dimension, as `expand` does: whole slices."""
    for d, (n, stride) in enumerate(zip(index.shape, index.stride())):
        if d != dim and (n != to.shape[d] or (n > 1 and stride != 0)):
            return None
    return index[tuple(slice(None) if d == dim else 0 for d in range(index.dim()))]


def _terms(op: str, input: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[int, Tensor, Tensor]:
    """`dim`, the index as it is checked, and the elements of `src` that it has, all at least 1-D.

    Of whole slices of a tensor of floats the index is that along `dim`.
    """
    dim = normalize_dim(op, dim, input.dim())
    _check_pair(op, input, "src", src)
    to, at, terms = at_least_1d(input), at_least_1d(index), at_least_1d(src)
    if at.numel() == 0:
        return dim, at.new_zeros(0).long(), terms.new_zeros(0)
    check_places(op, at, dim, input=to)
    check_places(op, at, -1, src=terms)
    terms, of_slices = terms[tuple(slice(n) for n in at.shape)], _index_of_slices(to, dim, at)
    if of_slices is not None and not is_whole(input.dtype):
        at = of_slices
    return dim, as_index(op, at, to.shape[dim]), terms


@public("index_sum")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`input` with elements of `src` added along `dim`, any floating-point dtype.

    For `dim=1`, `src[i, j, k]` is added to element `[i, index[i, j, k], k]`: `input + s`, s the sum of the elements
    with the same place, in ascending row-major order of `index`. Integers and bools are torch's, which are exact.

    Args:
        index: int64 or int32; no larger than `src`, and but for `dim` no larger than `input`.

    Raises:
        ShapeError: if the sizes do not fit.
        OutOfRangeError: if an index is not from 0 to the size of `dim` less one, or `dim` does not exist.
        DTypeError: if `src` has another dtype than `input`, or this is none of the contract.
    """
    op = "scatter_add"
    dim, at, terms = _terms(op, input, dim, index, src)
    if not at.numel():
        return input.clone()
    if is_whole(input.dtype):
        return torch.scatter_add(at_least_1d(input), dim, at, terms).view(input.shape)
    if at.dim() == 1:
        return _by_rows(lambda table, rows: added(table, at, rows, 1.0, contract), input, dim, terms)
    place = places(at, dim, input.shape).reshape(-1)
    return added(input.reshape(-1, 1), place, terms.reshape(-1, 1), 1.0, contract).view(input.shape)


def scatter_sum(like: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`scatter_add` to zeros of the shape of `like`, which are not made: the derivative of `gather`."""
    op, contract = "gather_backward", contract_name(None)
    dim, at, terms = _terms(op, like, dim, index, src)
    if not at.numel():
        return like.new_zeros(like.shape)
    if at.dim() == 1:
        return select_sum(like.shape, dim, at, terms, contract)
    place = places(at, dim, like.shape).reshape(-1)
    return _ops.index_sum(terms.reshape(-1, 1), place, like.numel(), contract).view(like.shape)


def select_sum(shape: Sequence[int], dim: int, index: Tensor, terms: Tensor, contract: str) -> Tensor:
    """`index_add` to zeros of a shape, which are not made: the derivative of `index_select`."""
    slices = at_least_1d(terms).movedim(dim, 0)
    rest = slices.shape[1:]
    rows = _ops.index_sum(slices.reshape(slices.shape[0], math.prod(rest)), index, [*shape, 1][dim], contract)
    return rows.view(-1, *rest).movedim(0, dim).contiguous().view(shape)


@public("index_sum")
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    contract: ContractLike = None,
) -> Tensor:
    """Elements of `src` with the same place along `dim`, as in `scatter_add`, reduced to one.

    'sum': `input + s`; 'mean': `(input + s) / (n + 1)`, n the number of elements of the place; 'prod': `input * p`, p
    their product; 'amax' and 'amin': the first of the largest or smallest ones, `input` before the others, which share
    the gradient equally. Without `include_self` s, `s / n`, p, and the extreme of `src` alone. Places without any keep
    their element. Integers and bools are torch's, in every mode.

    Raises:
        ShapeError: if the sizes do not fit, or `reduce` is no mode.
        OutOfRangeError: if an index is not from 0 to the size of `dim` less one, or `dim` does not exist.
        DTypeError: if `src` has another dtype than `input`, or this is none of the contract.
    """
    op = "scatter_reduce"
    check(op, reduce in MODES, lambda: f"reduce is {reduce!r}, expected one of {', '.join(MODES)}")
    dim, at, terms = _terms(op, input, dim, index, src)
    if not at.numel():
        return input.clone()
    to = at_least_1d(input)
    if is_whole(input.dtype):
        output = torch.scatter_reduce(to, dim, at, terms, reduce, include_self=include_self)
        return output.view(input.shape)
    if at.dim() == 1:
        return _by_rows(lambda table, rows: reduced(table, at, rows, reduce, include_self, contract), input, dim, terms)
    place = places(at, dim, to.shape).reshape(-1)
    return reduced(input.reshape(-1, 1), place, terms.reshape(-1, 1), reduce, include_self, contract).view(input.shape)


@public("index_sum", page="generated/torch.Tensor.index_reduce")
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    contract: ContractLike = None,
) -> Tensor:
    """Slices of `source` with the same index, reduced as by `scatter_reduce`: `(A, B), (K), (K, B) -> (A, B)`.

    Any floating-point dtype, for `dim=0`. Integers and bools are torch's.

    Args:
        index: (K), int64 or int32: the slice of `input` that each slice of `source` is for.
        source: of the sizes of `input`, but K in `dim`.
        reduce: 'prod', 'mean', 'amax' or 'amin'.
        include_self: whether the slices of `input` count.

    Raises:
        ShapeError: if the sizes do not fit, or `reduce` is no mode.
        OutOfRangeError: if an index is not from 0 to the size of `dim` less one, or `dim` does not exist.
        DTypeError: if `source` has another dtype than `input`, or this is none of the contract.
    """
    op = "index_reduce"
    check(op, reduce in MODES[1:], lambda: f"reduce is {reduce!r}, expected one of {', '.join(MODES[1:])}")
    dim, at, terms = _slices(op, input, dim, index, source)
    if is_whole(input.dtype):
        to = at_least_1d(input)
        place = at.view([-1 if d == dim else 1 for d in range(to.dim())]).expand(terms.shape)
        return torch.scatter_reduce(to, dim, place, terms, reduce, include_self=include_self).view(input.shape)
    return _by_rows(lambda table, rows: reduced(table, at, rows, reduce, include_self, contract), input, dim, terms)


@computes("index_put", "_unsafe_index_put", integers=True)
@computes("_index_put_impl", ignored=("unsafe",), integers=True)
@public("index_sum", page="generated/torch.Tensor.index_put_")
def index_put(
    input: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`input` with `input[indices] = values`, or with `accumulate` `values` added, any floating-point dtype.

    `values` broadcasts to the shape of `input[indices]`. Of several values for one element the last one in row-major
    order is it, or with `accumulate` `input + s`, s their sum in that order. Integers and bools are exact, too.

    Args:
        indices: tensors of int64 or int32, from -size to size - 1, masks of bools, or None for a whole dimension.

    Raises:
        ShapeError: if `values` does not broadcast to the elements, or a mask does not fit.
        OutOfRangeError: if an index does not exist.
        DTypeError: if `values` has another dtype than `input`, or this is none of the contract.
    """
    op = "index_put"
    _check_pair(op, input, "values", values)
    row, rest = indexed(op, input, indices)
    shape = (*row.shape, *rest)
    terms = _broadcast(op, values, shape, contract)
    place, columns = row.reshape(-1), math.prod(rest)
    size = math.prod(input.shape[: input.dim() - len(rest)])
    table, terms = input.reshape(size, columns), terms.reshape(place.shape[0], columns)
    if not accumulate:
        output = replaced(table, place, terms, contract)
    elif is_whole(input.dtype):
        output = torch.index_put(table, (place,), terms, accumulate=True)
    else:
        output = added(table, place, terms, 1.0, contract)
    return output.view(input.shape)


def _broadcast(op: str, values: Tensor, shape: Sequence[int], contract: str) -> Tensor:
    """`values.expand(shape)`, whose derivative is `index_sum`."""
    if list(values.shape) == list(shape):
        return values
    place = torch.arange(values.numel(), device=values.device).view(values.shape)
    try:
        place = place.expand(shape)
    except RuntimeError:
        check(op, False, lambda: f"values.shape is {tuple(values.shape)}, expected one that broadcasts to {shape}")
    return values.reshape(-1)[place] if is_whole(values.dtype) else elements(values, place, contract)


def replaced(table: Tensor, index: Tensor, terms: Tensor, contract: str) -> Tensor:
    """`table` with rows replaced, by the last one of those with the same index."""
    own = torch.arange(table.shape[0], device=index.device)
    last = torch.full_like(own, -1).scatter_reduce(
        0, index, torch.arange(index.shape[0], device=index.device), "amax", include_self=True
    )
    source = torch.where(last >= 0, last + table.shape[0], own)
    both = torch.cat([table, terms])
    return both[source] if is_whole(table.dtype) else _ops.embedding(both, source, -1, False, contract)


@public("index_sum")
def bincount(
    input: Tensor, weights: Tensor | None = None, minlength: int = 0, *, contract: ContractLike = None
) -> Tensor:
    """How often each integer occurs, or the sum of its weights, in ascending order: `(N) -> (max(input) + 1)`.

    Counts are int64. Sums are float32 if the weights are, else float64, to which they are converted; they have no
    derivative, as in torch.

    Args:
        input: integers that are not negative.
        weights: (N), of any floating-point or integer dtype, or None.
        minlength: the least length of the output.

    Raises:
        ShapeError: if `input` is not 1-D, or `weights` of another size, or `minlength` is negative.
        OutOfRangeError: if an integer is negative.
        DTypeError: if `input` is of no integer dtype.
    """
    op = "bincount"
    minlength = as_int(op, "minlength", minlength)
    check_dtype(op, (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), input=input)
    check_dim(op, 1, input=input)
    check(op, minlength >= 0, lambda: f"minlength is {minlength}, expected 0 or more")
    if weights is not None:
        check_size(op, "weights.shape", weights.shape, input.shape, "input.shape")
    do_not_cache()
    at = input.long()
    length = max(minlength, int(at.max()) + 1 if at.numel() else 0)
    check_index(op, at, length, name="input", expected=lambda: "0 or more")
    if weights is None:
        return torch.bincount(at, minlength=minlength)
    wide = floating(weights.detach(), torch.float32 if weights.dtype is torch.float32 else torch.float64)
    return _ops.index_sum(wide.unsqueeze(1), at, length, contract).squeeze(1)


@computes("put", integers=True)
def _aten_put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    return index_put(input.reshape(-1), (index.reshape(-1),), source.reshape(-1), accumulate).view_as(input)


@computes("histc")
def _aten_histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each bin, of x `floor(((x - min) * bins) / (max - min))`, each step rounded once, or the
    last one. Others, and NaN, are in none. `min = max` are the extremes of the input."""
    check_dtype("histc", (torch.float32, torch.float64), input=input)
    check_range("histc", bins > 0, lambda: f"bins is {bins}, expected 1 or more")
    values = input.detach().reshape(-1)
    if min == max and values.numel():
        low, high = (bound.item() for bound in values.aminmax())
        min, max = (low, high) if low < high else (low - 1, high + 1)
    finite = math.isfinite(min) and math.isfinite(max)
    check_range("histc", finite, lambda: f"the range is [{min}, {max}], expected finite numbers")
    check_range("histc", min < max or not values.numel(), lambda: f"max is {max}, expected one above min, {min}")
    values = values[(values >= min) & (values <= max)]
    places = div(mul(sub(values, min), bins), max - min).to(torch.int64).clamp(max=bins - 1)
    return bincount(places, minlength=bins).to(input.dtype)
