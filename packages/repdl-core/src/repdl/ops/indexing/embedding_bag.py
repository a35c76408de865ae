"""embedding_bag: sums, means or maxima of bags of rows of a table."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import UnsupportedError, check, check_dim, check_dtype, check_range, check_size
from repdl.ops.common import as_index
from repdl.ops.declare import public
from repdl.ops.indexing._index_reduce import first_largest
from repdl.ops.indexing._renorm import check_norm, renorm
from repdl.ops.indexing.bag_sum import ascend
from repdl.ops.indexing.gather import elements
from repdl.registry import as_int, computes, functions as _ops
from repdl.tensors import values as host
from repdl.tensors.values import assert_on_device, is_readable

__all__ = ["embedding_bag"]

MODES = ("sum", "mean", "max")


def _raise_unless_ascending(op: str, begins: list[int], count: int) -> None:
    first, last = begins[0], begins[-1]
    check(op, first == 0 or len(begins) == 1, lambda: f"offsets[0] is {first}, expected 0")
    check(op, last == count, lambda: f"offsets[-1] is {last}, expected {count} (= the length of input)")
    for i, (a, b) in enumerate(pairwise(begins)):
        check(op, a <= b, lambda: f"offsets[{i}] is {a}, expected at most {b}, where the next bag begins")


def _begins(op: str, offsets: Tensor, count: int, has_end: bool) -> Tensor:
    """Where each bag begins, and behind the last one where it ends; raises unless they ascend from 0."""
    check_dim(op, 1, offsets=offsets)
    check_dtype(op, (torch.int64, torch.int32), offsets=offsets)
    check(op, offsets.shape[0] >= 1 or not has_end, "offsets is empty, expected the end of the last bag at least")
    begins = offsets.long()
    if not has_end:
        begins = torch.cat([begins, begins.new_full((1,), count)])
    if assert_on_device(op, begins, lambda b: ascend(b, count), "offsets do not ascend from 0 to the length of input"):
        do_not_cache()
    elif is_readable(begins):
        do_not_cache()
        if not bool(ascend(begins, count).all()):
            _raise_unless_ascending(op, begins.tolist(), count)
    return begins


def _largest(weight: Tensor, index: Tensor, begins: Tensor, padding: int, length: int, contract: str) -> Tensor:
    """The largest element of each column in each bag of at most `length` rows; 0 without any."""
    place = begins[:-1].unsqueeze(1) + torch.arange(length, device=index.device)
    exists = place < begins[1:].unsqueeze(1)
    rows = index[place.clamp(max=max(index.shape[0] - 1, 0))]
    if padding >= 0:
        exists = exists & (rows != padding)
    first = exists.long().argmax(1, True)  # the first of equal ones
    # What does not exist repeats one that does: no maximum changes.
    rows = torch.where(exists, rows, rows.gather(1, first))
    image = _ops.embedding(weight.detach(), rows, -1, False, contract).unsqueeze(1)  # (bags, 1, length, columns)
    columns = weight.shape[1]
    largest, at = _ops.max_pool2d(image, [length, 1], [1, 1], [0, 0], [1, 1], False)
    at = at.view(-1, columns) // columns
    do_not_cache()  # what follows depends on whether there is a NaN
    if torch.compiler.is_compiling() or not is_readable(largest) or bool(largest.isnan().any()):
        numbers = torch.arange(length, device=index.device).view(1, -1, 1)
        nan = torch.where(image.squeeze(1).isnan(), numbers, length).amin(1)  # max_pool2d chooses the last of several
        at = torch.where(nan < length, nan, at)
    chosen = rows.gather(1, at) * columns + torch.arange(columns, device=index.device)
    return torch.where(exists.any(1, True), elements(weight, chosen, contract), 0)


def _largest_of_any(weight: Tensor, index: Tensor, begins: Tensor, padding: int, contract: str) -> Tensor:
    """The same for bags whose lengths only a device knows: slower on a CPU, but no tensor has their size."""
    bags, count = begins.shape[0] - 1, index.shape[0]
    bag = torch.searchsorted(begins, torch.arange(count, device=index.device), right=True) - 1
    if padding >= 0:
        bag = torch.where(index == padding, bags, bag)
    rows = _ops.embedding(weight.detach(), index, -1, False, contract)
    first = first_largest(rows, bag, bags + 1)[:bags]
    exists = first < count
    columns = torch.arange(weight.shape[1], device=index.device)
    # An empty bag has the row that begins it there, too: the gradient of that has a term of +0.
    own = begins[:-1].clamp(max=count - 1).unsqueeze(1)
    chosen = index[torch.where(exists, first, own)] * weight.shape[1] + columns
    return torch.where(exists, elements(weight, chosen, contract), 0)


@public("index_sum")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """The sum, mean or maximum of each bag of rows of a table: `(B, L), (V, D) -> (B, D)`, any floating-point dtype.

    Rows are added in ascending order of the bag; a mean is divided once by their number. An empty bag gives 0.

    Args:
        input: int64 or int32 indices of rows, (B, L), or (N) with `offsets`.
        weight: the table, (V, D).
        offsets: (B), where each bag of a 1-D `input` begins, ascending from 0.
        max_norm, norm_type: rows that are longer are made shorter first, in place, as by `embedding`.
        scale_grad_by_freq: divide the gradient of each row by how often it is in `input`.
        mode: 'sum', 'mean' or 'max'. NaN is the largest; of equal elements the first one gets the gradient.
        sparse: False: gradients are dense.
        per_sample_weights: factors of the rows, of the shape of `input`, for the mode 'sum'.
        include_last_offset: `offsets` has the end of the last bag, too.
        padding_idx: a row, from -V to V - 1, that is in no bag.

    Raises:
        ShapeError: if shapes, offsets or the mode do not fit.
        OutOfRangeError: if an index or `padding_idx` is no row.
        UnsupportedError: for `sparse`, and for `per_sample_weights` with another mode.
        DTypeError: if `input` is of no integer dtype, or `weight` of none of the contract.
    """
    op = "embedding_bag"
    check(op, mode in MODES, lambda: f"mode is {mode!r}, expected one of {', '.join(MODES)}")
    check_dim(op, (1, 2), input=input)
    check_dim(op, 2, weight=weight)
    check_dtype(op, ALL, weight=weight)
    if sparse:
        raise UnsupportedError(f"{op}: sparse is True, expected False: gradients are dense; use sparse=False")
    if mode != "sum" and per_sample_weights is not None:
        raise UnsupportedError(f"{op}: per_sample_weights is given with mode {mode!r}, expected None, or mode 'sum'")
    check(op, mode != "max" or not scale_grad_by_freq, "scale_grad_by_freq is True with mode 'max', expected False")
    if per_sample_weights is not None:
        check_size(op, "per_sample_weights.shape", list(per_sample_weights.shape), list(input.shape), "input.shape")
        check_dtype(op, (weight.dtype,), per_sample_weights=per_sample_weights)
    most, norm = check_norm(op, max_norm, norm_type)
    padding, size = -1, weight.shape[0]
    if padding_idx is not None:
        padding = as_int(op, "padding_idx", padding_idx)
        check_range(op, -size <= padding < size, lambda: f"padding_idx is {padding}, expected {-size} to {size - 1}")
        padding %= size
    index = as_index(op, input, size, name="input").reshape(-1)
    length, begins = 0, None  # of all bags, or of the longest one; where they begin, if they differ
    if input.dim() == 2:
        check(op, offsets is None, "offsets is given with a 2-D input, expected None: its rows are the bags")
        length = input.shape[1]
        if mode == "max" or length == 0:
            begins = torch.arange(input.shape[0] + 1, device=input.device) * length
    else:
        check(op, offsets is not None, "offsets is None with a 1-D input, expected where its bags begin")
        begins = _begins(op, offsets, index.shape[0], include_last_offset)  # type: ignore[arg-type]
    if most is not None:
        renorm(weight, index, most, norm, contract)
    if mode != "max":
        factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        options = length, padding, scale_grad_by_freq, mode == "mean", contract
        return _ops.bag_sum(weight, index, begins, factors, *options)
    assert begins is not None
    bags = begins.shape[0] - 1
    left = input.dim() == 1 and not host.is_on_host(begins)  # to the device, which alone knows the longest one
    if input.dim() == 1:
        length = index.shape[0] if left or bags == 0 else int(begins.diff().max())
    if not (bags and length and weight.shape[1]):
        return _ops.index_sum(weight[:0], index[:0], bags, contract)
    if left:
        return _largest_of_any(weight, index, begins, padding, contract)
    return _largest(weight, index, begins, padding, length, contract)


@computes("embedding_bag")
def _aten_embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    output = embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    nothing = indices.new_empty(0)
    return output, nothing, nothing, nothing
