"""Tensors of one parameter as flat memory: element i of each is the same logical element."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.tensors.overlap import check_memory, overlaps_itself

Written = list[tuple[torch.Tensor, torch.Tensor]]


def _layout(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Size and stride of each dimension that has more than one element."""
    return [(n, s) for n, s in zip(tensor.shape, tensor.stride()) if n > 1]


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements are dense in memory, in whatever order of dimensions."""
    last = sum((n - 1) * s for n, s in _layout(tensor))
    return last == tensor.numel() - 1 and not overlaps_itself(tensor)


def flat_lists(
    op: str, columns: Sequence[Sequence[torch.Tensor]], written: Sequence[bool]
) -> tuple[list[list[torch.Tensor]], Written]:
    """The columns with the tensors of each row in one order in memory, without gaps.

    A tensor whose layout is not that of the first column's, or that has gaps, is replaced
    by a copy. The second result says which to copy back.

    Raises:
        ShapeError: if a tensor that is written shares memory with another one.
    """
    flat: list[list[torch.Tensor]] = [[] for _ in columns]
    spans: list[tuple[int, int, bool]] = []
    back: Written = []
    for row in zip(*columns):
        size = row[0].nbytes
        if not all(tensor.is_contiguous() for tensor in row):
            row = _same_layout(row, written, back)
        for column, tensor, w in zip(flat, row, written):
            column.append(tensor)
            spans.append((tensor.data_ptr(), size, w))
    check_memory(op, spans)
    return flat, back


def _same_layout(row: Sequence[torch.Tensor], written: Sequence[bool], back: Written) -> tuple[torch.Tensor, ...]:
    dense = _is_dense(row[0])
    layout = _layout(row[0])
    result = []
    for tensor, w in zip(row, written):
        if dense and _layout(tensor) == layout:
            result.append(tensor)
            continue
        if dense:
            copy = torch.empty_strided(row[0].shape, row[0].stride(), dtype=tensor.dtype, device=tensor.device)
        else:
            copy = torch.empty(row[0].shape, dtype=tensor.dtype, device=tensor.device)
        copy.copy_(tensor.detach())
        result.append(copy)
        if w:
            back.append((tensor.detach(), copy))
    return tuple(result)
