"""Indices, and the elements that they name in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repdl.callcache import ValueRange, do_not_cache, record_check
from repdl.errors import check, check_dim, check_dtype, check_least, check_range, check_size, check_tensor_or_none
from repdl.tensors import values as host

__all__ = ["as_index", "check_index", "check_rows", "indexed", "places"]

FEW = 128
"""Up to so many values a list costs less than a call of torch."""


def check_index(
    op: str,
    index: Tensor,
    size: int,
    *,
    name: str = "index",
    expected: Callable[[], str] | None = None,
    ignored: int | None = None,
    given: Tensor | None = None,
) -> ValueRange | None:
    """Raise unless every index is from 0 to size - 1, or `ignored`; reads the values. Returns that as bounds.

    `expected` says what was, in place of the range; `given` has the values to show, in place of those of `index`.
    Those on another device are left to the kernel that gets them: the host waits for none.
    """
    count = index.numel()
    other = 0 if ignored is None else ignored  # 0 is in range, but of an empty one
    within = None if ignored is None and size == 0 else ValueRange(index, 0, size, other, is_exact=True)
    if count == 0 or not host.is_on_host(index):
        return within
    if count <= FEW:
        values = index.flatten().tolist()
        low, high = min(values), max(values)
    else:
        low, high = (int(t) for t in index.aminmax())
    if low >= 0 and high < size:
        return within
    wrong = (index < 0) | (index >= size)
    if ignored is not None:
        wrong &= index != ignored
        if not wrong.any():
            return within
    where = tuple(int(i) for i in wrong.nonzero()[0])
    at = f"{name}{list(where)}" if where else name
    what = f"0 to {size - 1}, one of {size}" if expected is None else expected()
    check_range(op, False, lambda: f"{at} is {int((index if given is None else given)[where])}, expected {what}")
    return None


def as_index(op: str, index: Tensor, size: int, *, name: str = "index", wraps: bool = False) -> Tensor:
    """An index of int64 or int32, as int64 and of rows that exist; with `wraps` -1 is the last one, and so on.

    Where the values can't be read now, what is out of range becomes -1, which every op refuses when it runs.
    """
    if index.numel():  # torch takes an index without elements of any dtype
        check_dtype(op, (torch.int64, torch.int32), **{name: index})
    index = index.long()
    at = torch.where(index < 0, index + size, index) if wraps else index
    if not host.is_readable(index):
        return torch.where((at >= 0) & (at < size), at, -1)
    if wraps:
        do_not_cache()
        check_index(op, at, size, name=name, expected=lambda: f"{-size} to {size - 1}", given=index)
    else:
        record_check(_check_rows_exist, (op, index, size, name), _check_rows_exist(op, index, size, name))
    return at


def _check_rows_exist(op: str, index: Tensor, size: int, name: str) -> ValueRange | None:
    return check_index(op, index, size, name=name)


def check_rows(op: str, values: Tensor, index: Tensor, size: int) -> None:
    """Raise unless each of the values, rows of a matrix, has an index."""
    check_dtype(op, (torch.int64,), index=index)
    check_dim(op, 2, values=values)
    check_dim(op, 1, index=index)
    check_size(op, "index.shape[0]", index.shape[0], values.shape[0], "values.shape[0]")
    check_least(op, 0, size=size)


def places(index: Tensor, dim: int, shape: Sequence[int]) -> Tensor:
    """Which element of a tensor of `shape`, counted in row-major order, each element of `index` names in `dim`.

    Its other coordinates are its own, or 0 where the tensor has size 1 and is repeated. -1 stays -1.
    """
    if len(shape) == 1:
        return index
    place, stride = None, 1
    for d in range(len(shape) - 1, -1, -1):
        if d == dim:
            own = index if stride == 1 else index * stride
            place = own if place is None else own + place
        elif shape[d] != 1:
            steps = (torch.arange(index.shape[d], device=index.device) * stride).view(-1, *(1 for _ in shape[d + 1 :]))
            place = steps if place is None else place + steps
        stride = stride * shape[d]
    assert place is not None
    if host.is_readable(index):
        return place  # -1 was refused
    return torch.where(index < 0, -1, place)


def indexed(op: str, input: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, Sequence[int]]:
    """The rows that `input[indices]` reads, and the sizes of a row."""
    check(op, len(indices) > 0, "indices is empty, expected one tensor at least")
    at: list[Tensor | None] = []
    d = 0
    for i, index in enumerate(indices):
        what = f"indices[{i}]"
        check_tensor_or_none(op, **{what: index})
        if index is None:
            at.append(None)
            d += 1
            continue
        check_dtype(op, (torch.int64, torch.int32, torch.bool, torch.uint8), **{what: index})
        mask = index.dtype in (torch.bool, torch.uint8)
        used = index.dim() if mask else 1
        check_range(
            op,
            d + used <= input.dim(),
            lambda: f"indices is for {d + used} dimensions, expected at most {input.dim()}",
        )
        if mask:
            check_size(op, f"{what}.shape", list(index.shape), list(input.shape[d : d + used]), f"input.shape[{d}:]")
            at.append(index.bool())
        else:
            rows = as_index(op, index, input.shape[d], name=what, wraps=True)
            at.append(torch.where(rows < 0, input.shape[d], rows))  # the size: torch refuses it, where -1 is the last
        d += used
    rest = input.shape[d:] if None not in at else input.shape[:0]
    lead = input.shape[: input.dim() - len(rest)]
    if (found := _row_major(at, lead)) is not None:
        return found.to(input.device), rest
    numbers = torch.arange(math.prod(lead), device=input.device).view(lead)
    return torch.ops.aten.index(numbers, at), rest


def _row_major(at: Sequence[Tensor | None], shape: Sequence[int]) -> Tensor | None:
    """The numbers of these elements in row-major order, of which there may be few; None if it takes torch to say."""
    found = [index for index in at if index is not None and index.dtype is torch.int64 and host.is_readable(index)]
    if len(found) < len(at):
        return None
    place = found[0]
    try:
        for index, size in zip(found[1:], shape[1:]):
            place = place * size + index
    except RuntimeError:  # they do not broadcast, which torch says in its own words
        return None
    return place
