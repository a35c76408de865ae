"""unique and unique_consecutive: comparisons of integers (`repdl.ops.common.sort_key`), and data movement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import DTypeError, check
from repdl.ops.common import is_whole, normalize_dim, sort_key
from repdl.ops.declare import public
from repdl.ops.indexing.gather import index_select
from repdl.registry import as_int, computes

__all__ = ["unique", "unique_consecutive"]


@public("max", uncached="sizes follow from values")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    contract: ContractLike = None,
) -> Any:
    """The elements that differ, in ascending order whether `sorted` or not, of floats or integers: any shape -> `(U)`.

    Of equal ones, zeros of both signs among them, the first is there; every NaN differs from all, and is larger than
    everything. With `dim` slices along it, in the order of their first elements that differ.

    Args:
        return_inverse: whether to return which of them each element is, too, of the shape of `input`, or `(N)`, int64.
        return_counts: whether to return how many there are of each, too, `(U)`, int64.

    Raises:
        ShapeError: if `dim` does not exist, or slices have no element.
        DTypeError: for complex numbers.
    """
    return _unique("unique", input, True, return_inverse, return_counts, dim, contract)


@public("max", uncached="sizes follow from values")
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    contract: ContractLike = None,
) -> Any:
    """The first of each run of equal elements, or of equal slices along `dim`; results and errors are as of `unique`.

    Raises:
        ShapeError: if `dim` does not exist, or slices have no element.
        DTypeError: for complex numbers.
    """
    op = "unique_consecutive"
    return _unique(op, input, False, return_inverse, return_counts, dim, contract)


def _unique(
    op: str, input: Tensor, sorts: bool, return_inverse: bool, return_counts: bool, dim: int | None, contract: str
) -> Any:
    if input.dtype not in ALL and not is_whole(input.dtype):
        raise DTypeError(f"{op}: input.dtype is {input.dtype}, expected floating-point numbers, integers or bools")
    whole = input.reshape(-1) if dim is None or input.dim() == 0 else input
    position = 0 if dim is None else normalize_dim(op, as_int(op, "dim", dim), input.dim())
    slices = whole.detach().movedim(position, 0)
    check(
        op,
        len(slices) == 0 or slices.numel() > 0,
        lambda: f"input.shape is {tuple(input.shape)}, expected slices along dim {dim} with elements",
    )
    do_not_cache()  # how many differ follows from values
    first, inverse, counts = _groups(slices.reshape(len(slices), slices.shape[1:].numel()), sorts)
    output = index_select(whole, position, first, contract=contract)
    if not (return_inverse or return_counts):
        return output
    inverse = inverse.view(input.shape) if dim is None else inverse
    return output, *([inverse] if return_inverse else []), *([counts] if return_counts else [])


def _groups(rows: Tensor, sorts: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The first of each group of equal rows, `(U)`; the group of each row, `(N)`; and how many there are, `(U)`."""
    keys, at = sort_key(rows), torch.arange(len(rows), device=rows.device)
    for column in reversed(range(keys.shape[1] if sorts else 0)):
        at = at[torch.sort(keys[at, column], stable=True).indices]
    begins = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    if len(rows) > 1:
        keys = keys[at]
        differ = keys[1:] != keys[:-1]
        if rows.is_floating_point():
            differ |= keys[1:] == torch.iinfo(keys.dtype).max  # NaN
        begins[1:] = differ.any(1)
    places = begins.nonzero().squeeze(1)
    inverse = torch.empty_like(at)
    inverse[at] = begins.cumsum(0) - 1
    return at[places], inverse, torch.diff(places, append=places.new_tensor([len(rows)]))


def _aten_unique(function: Callable[..., Any]) -> Callable[..., Any]:
    """With all that the ops of torch return: indices and counts too, empty where they were not asked for."""

    def unique(
        input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> tuple[Tensor, ...]:
        output, inverse, counts = function(input, return_inverse=True, return_counts=True, dim=dim)
        nothing = inverse.new_empty(0)
        return output, inverse if return_inverse else nothing, counts if return_counts else nothing

    return unique


@computes("_unique", ignored=("sorted",))
def _aten_unique_pair(input: Tensor, return_inverse: bool = False) -> tuple[Tensor, ...]:
    return _aten_unique(unique)(input, return_inverse)[:2]


computes("_unique2", "unique_dim", ignored=("sorted",))(_aten_unique(unique))
computes("unique_consecutive", "unique_dim_consecutive")(_aten_unique(unique_consecutive))
