"""Several values for one place: the last one stays, in the order of the index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.audit.op_classes import plain_name
from repdl.overrides.torchs import TorchKernel

Tensor = torch.Tensor
Function = Callable[..., Any]
OPS = frozenset({"index_copy", "scatter"})
"""By torch's name: which value stays depends on the number of threads."""


def last_stays(op: Any, original: TorchKernel, otherwise: Function) -> Function:
    """torch's kernel, given equal values for equal places: the last of them.

    What torch's derivative of that is, which sees no places, is refused: `otherwise` has all other calls.
    """
    names = [a.name for a in op._schema.arguments]
    if "reduce" in names or not {"src", "source"} & {*names}:
        return otherwise
    slices = plain_name(op) == "index_copy"

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        input, dim, index, source, *rest = args
        if source.requires_grad and torch.is_grad_enabled():
            return otherwise(keyset, *args, **kwargs)
        with torch.no_grad():
            latest = _latest_slices(input, dim, index, source) if slices else _latest(input, dim, index, source)
        return original.call(keyset, (input, dim, index, latest, *rest), kwargs)

    return call


def _latest(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Of `scatter`."""
    if index.is_meta or index.numel() < 2 or not _fits(input, dim, index, source):
        return source
    last = _last(input.shape, dim, index, torch.arange(index.numel(), device=index.device).view(index.shape))
    given = source[tuple(slice(n) for n in index.shape)]
    return given.reshape(-1)[last].view(index.shape)


def _latest_slices(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Of `index_copy`."""
    if index.is_meta or index.dim() != 1 or index.numel() < 2 or input.dim() == 0 or source.dim() != input.dim():
        return source
    last = _last((input.shape[dim],), 0, index, torch.arange(index.shape[0], device=index.device))
    return source.index_select(dim, last)


def _fits(input: Tensor, dim: int, index: Tensor, source: Tensor) -> bool:
    """Whether sizes do; if not, torch says what is wrong."""
    sizes = input.dim() == index.dim() == source.dim() > 0 and all(i <= s for i, s in zip(index.shape, source.shape))
    return sizes and all(i <= n for d, (i, n) in enumerate(zip(index.shape, input.shape)) if d != dim % input.dim())


def _last(shape: Any, dim: int, index: Tensor, numbers: Tensor) -> Tensor:
    """The largest of the numbers that the index puts in the place of each one."""
    places = torch.zeros(shape, dtype=torch.int64, device=index.device)
    return places.scatter_reduce(dim, index.long(), numbers, "amax").gather(dim, index.long())


__all__ = ["OPS", "last_stays"]
