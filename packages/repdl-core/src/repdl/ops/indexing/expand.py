"""Functions that repeat elements: data movement, whose derivative is the contract's sum over what was repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import check, check_dim, check_dtype, check_range, check_size
from repdl.ops.common import as_numpy, expand_to, is_whole, normalize_dim
from repdl.ops.declare import public
from repdl.ops.indexing.gather import at_least_1d
from repdl.registry import as_int, as_ints, functions as _ops
from repdl.tensors.values import assert_on_device, is_readable

__all__ = ["broadcast_to", "expand", "repeat", "repeat_interleave", "tile"]


def _check_input(op: str, input: Tensor) -> None:
    if not is_whole(input.dtype):
        check_dtype(op, ALL, input=input)


def _expanded(op: str, input: Tensor, size: Any, contract: str) -> Tensor:
    _check_input(op, input)
    sizes = as_ints(op, "size", list(size) if isinstance(size, torch.Size) else size)
    lead = len(sizes) - input.dim()
    check(op, lead >= 0, lambda: f"size has {len(sizes)} dimensions, expected at least {input.dim()} (= input.dim())")
    shape = [input.shape[d - lead] if n == -1 and d >= lead else n for d, n in enumerate(sizes)]
    for d, n in enumerate(shape):
        check(op, n >= 0, lambda: f"size[{d}] is {n}, expected 0 or more, or -1 for a size of input")
        own = input.shape[d - lead] if d >= lead else 1
        check(op, own in (1, n), lambda: f"size[{d}] is {n}, expected {own} (= input.shape[{d - lead}])")
    return input.expand(shape) if input.shape == torch.Size(shape) else expand_to(input, shape, contract)


@public("sum", page="generated/torch.Tensor.expand", uncached="torch moves the data")
def expand(input: Tensor, size: Sequence[int], *, contract: ContractLike = None) -> Tensor:
    """A view of `input` in which dimensions of size 1, and new ones in front, are repeated: `(A, 1) -> (N, A, B)`.

    Any floating-point dtype, integers and bools. The derivative is the sum over what was repeated, in row-major order,
    with 16-bit floats rounded once; that of `torch.Tensor.expand` is a sum in an order of torch's.

    Args:
        size: the sizes of the result; -1 keeps that of `input`.

    Raises:
        ShapeError: if `input` does not broadcast to `size`.
    """
    return _expanded("expand", input, size, contract)


@public("sum", uncached="torch moves the data")
def broadcast_to(input: Tensor, size: Sequence[int], *, contract: ContractLike = None) -> Tensor:
    """`expand(input, size)`.

    Raises:
        ShapeError: if `input` does not broadcast to `size`.
    """
    return _expanded("broadcast_to", input, size, contract)


def _repeated(op: str, input: Tensor, times: list[int], contract: str) -> Tensor:
    """Copies behind each other: `(s, t) -> (m s, n t)` for m and n times."""
    for d, n in enumerate(times):
        check(op, n >= 0, lambda: f"repeats[{d}] is {n}, expected 0 or more")
    shape = [1] * (len(times) - input.dim()) + list(input.shape)
    apart = input.reshape([n for size in shape for n in (1, size)])
    whole = expand_to(apart, [n for pair in zip(times, shape) for n in pair], contract)
    copy = whole.reshape([n * size for n, size in zip(times, shape)])
    nothing = all(n == 1 for n in times)  # is repeated: no view of the input
    return copy.clone(memory_format=torch.contiguous_format) if nothing else copy.contiguous()


@public("sum", page="generated/torch.Tensor.repeat", uncached="torch moves the data")
def repeat(input: Tensor, repeats: Sequence[int], *, contract: ContractLike = None) -> Tensor:
    """Copies of `input` behind each other: `(A, B) -> (N, 2 A, 3 B)` for `repeats=(N, 2, 3)`.

    Any floating-point dtype, integers and bools. The derivative is the sum over the copies, in row-major order, with
    16-bit floats rounded once.

    Raises:
        ShapeError: if there are less numbers than dimensions, or one is negative.
    """
    op = "repeat"
    _check_input(op, input)
    times = as_ints(op, "repeats", list(repeats) if isinstance(repeats, torch.Size) else repeats)
    check(op, len(times) >= input.dim(), lambda: f"repeats has {len(times)} numbers, expected at least {input.dim()}")
    return _repeated(op, input, times, contract)


@public("sum", uncached="torch moves the data")
def tile(input: Tensor, dims: Sequence[int], *, contract: ContractLike = None) -> Tensor:
    """`repeat(input, dims)`, with 1 in front of `dims` for each dimension that it has less than `input`.

    Raises:
        ShapeError: if a number is negative.
    """
    op = "tile"
    _check_input(op, input)
    times = as_ints(op, "dims", list(dims) if isinstance(dims, torch.Size) else dims)
    return _repeated(op, input, [1] * (input.dim() - len(times)) + times, contract)


@public("sum", uncached="torch moves the data")
def repeat_interleave(
    input: Tensor,
    repeats: Tensor | int,
    dim: int | None = None,
    *,
    axis: int | None = None,
    output_size: int | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """Each slice of `dim`, or without it each element, several times: `(A, B) -> (A, 2 B)` for `repeats=2, dim=1`.

    Any floating-point dtype, integers and bools. The derivative is the sum over the copies, in ascending order, with
    16-bit floats rounded once.

    Args:
        repeats: a number, or an int64 or int32 tensor with one, or with one for each slice.
        output_size: the sum of `repeats`, if it is known.

    Raises:
        ShapeError: if `repeats` does not fit, or a number is negative.
        DTypeError: if `repeats` is of another dtype, or `input` of none of the contract.
    """
    op = "repeat_interleave"
    _check_input(op, input)
    dim, _ = as_numpy(op, dim, False, axis, None)
    rows = at_least_1d(input) if dim is not None else input.reshape(-1)
    position = 0 if dim is None else normalize_dim(op, dim, input.dim())
    size = rows.shape[position]
    if not isinstance(repeats, Tensor):
        times = as_int(op, "repeats", repeats)
        check(op, times >= 0, lambda: f"repeats is {times}, expected 0 or more")
        _check_output(op, output_size, times * size)
        shape = [*rows.shape[: position + 1], times, *rows.shape[position + 1 :]]
        return expand_to(rows.unsqueeze(position + 1), shape, contract).flatten(position, position + 1).contiguous()
    check_dtype(op, (torch.int64, torch.int32), repeats=repeats)
    check_dim(op, (0, 1), repeats=repeats)
    counts = at_least_1d(repeats)
    if counts.shape[0] == 1:
        counts = counts.expand(size)
    check_size(op, "repeats.shape", list(counts.shape), [size], f"the size of dim {position}, or 1")
    assert_on_device(op, counts, lambda n: n >= 0, "a number of repeats is below 0")  # torch looks at output_size
    if is_readable(repeats):
        do_not_cache()
        check(op, counts.numel() == 0 or bool((counts >= 0).all()), "repeats has a number below 0, expected 0 or more")
        _check_output(op, output_size, int(counts.sum()))
    index = torch.repeat_interleave(counts.contiguous(), output_size=output_size)
    if is_whole(input.dtype):
        return rows.index_select(position, index)
    slices = rows.movedim(position, 0)
    table = slices.reshape(size, slices[:1].numel())
    copies = _ops.embedding(table, index, -1, False, contract)
    return copies.view(index.shape[0], *slices.shape[1:]).movedim(0, position).contiguous()


def _check_output(op: str, given: int | None, size: int) -> None:
    if given is not None:
        check_range(op, given == size, lambda: f"output_size is {given}, expected {size}, the sum of repeats")
