"""The memory spans of the tensors of a call: whose memory a tensor is, and from which byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import get_gradient_edge


def is_on_host(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu"


def device_of(tensors: Sequence[torch.Tensor]) -> torch.device:
    """The first one that is not the host, if there is one."""
    return next((t.device for t in tensors if not is_on_host(t)), torch.device("cpu"))


def tensors_of(*groups: Sequence[Any]) -> list[torch.Tensor]:
    return [value for group in groups for value in group if isinstance(value, torch.Tensor)]


def result_of(value: Any, tensors: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> int | None:
    """What a result is, as `Recording` takes it; None: something else."""
    if value is None:
        return -1
    if not isinstance(value, torch.Tensor):
        return None
    index = index_of(value, tensors)
    if index >= 0:
        return -2 - index
    span = span_of(value, written)
    return None if span is None or span[1] else span[0]


def flat(values: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among values, and in lists among them."""
    return tensors_of(*(value if isinstance(value, (list, tuple)) else (value,) for value in values))


def unique(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(t): t for t in tensors}.values())


def floats_of(values: Sequence[Any]) -> list[tuple[int, float]]:
    return [(i, value) for i, value in enumerate(values) if type(value) is float]


class ValueRange(NamedTuple):
    """What a check of values returns if it has nothing against an int64 tensor whose elements from `first` on
    are at least `low` and less than `end`, or `other`.
    """

    tensor: torch.Tensor
    low: int
    end: int
    other: int
    first: int = 0


NOT_READ = ValueRange(torch.empty(0, dtype=torch.int64), 0, 0, 0)
"""What a check of values returns that has read none, for calls without the tensor that it looks at."""


def range_of(within: ValueRange | None, tensors: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
    """(number of a tensor, how many values, bounds, value, first): C looks at them; None: the check itself does."""
    if within is None:
        return None
    tensor, low, end, other, first = within
    index = next((i for i, t in enumerate(tensors) if t is tensor or is_reshaped(tensor, t)), -1)
    if index < 0 or not is_on_host(tensor) or tensor.dtype != torch.int64 or not tensor.is_contiguous():
        return None
    return index, tensor.numel(), low, end, other, first


def alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()


def is_reshaped(tensor: Any, source: torch.Tensor) -> bool:
    """Whether a tensor is all of another one in another shape, as torch's `reshape` makes it without a copy, and to
    autograd no more than that."""
    if not isinstance(tensor, torch.Tensor) or tensor is source or tensor.requires_grad != source.requires_grad:
        return False
    if tensor.dtype is not source.dtype or tensor.numel() != source.numel() or tensor.data_ptr() != source.data_ptr():
        return False
    if tensor.untyped_storage()._cdata != source.untyped_storage()._cdata:
        return False
    if not (tensor.is_contiguous() and source.is_contiguous()):
        return False
    node = tensor.grad_fn
    if node is None:
        return not tensor.requires_grad
    return node.name() in _RESHAPES and node.next_functions[0] == get_gradient_edge(source)[:2]


_RESHAPES = "ViewBackward0", "ReshapeAliasBackward0"


def extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element of a tensor to the end of its last one."""
    if tensor.numel() == 0:
        return 0
    return tensor.itemsize * (1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())))


def index_of(value: Any, tensors: Sequence[torch.Tensor]) -> int:
    return next((i for i, t in enumerate(tensors) if t is value), -1)


def as_template(
    arguments: Sequence[Any], tensors: Sequence[torch.Tensor], constants: Sequence[torch.Tensor] = ()
) -> tuple[tuple[int, Any], ...] | None:
    """Arguments as (number of a tensor, None) or (-1, constant); None where one is a tensor of its own."""
    pairs = [(index_of(a, tensors), a) for a in arguments]
    if any(index < 0 and isinstance(a, torch.Tensor) and index_of(a, constants) < 0 for index, a in pairs):
        return None
    return tuple((index, None if index >= 0 else a) for index, a in pairs)


def as_reshaped(
    function: Callable[..., Any], arguments: Sequence[Any], tensors: Sequence[torch.Tensor]
) -> tuple[Callable[..., Any], tuple[tuple[int, Any], ...] | None]:
    """A function, and its arguments as `as_template` gives them; those that are a tensor in another shape are made of
    it."""
    sources = [next((t for t in tensors if is_reshaped(a, t)), a) for a in arguments]
    shapes = [None if s is a else a.shape for s, a in zip(sources, arguments)]
    if not any(shapes):
        return function, as_template(arguments, tensors)

    def reshaping(*given: Any) -> Any:
        return function(*(g if shape is None else g.reshape(shape) for g, shape in zip(given, shapes)))

    return reshaping, as_template(sources, tensors)


def span_of(tensor: torch.Tensor, sources: Sequence[torch.Tensor]) -> tuple[int, int] | None:
    """Where the memory of a tensor is: number of a source, and bytes from there; None: in none, or more than one."""
    index = index_of(tensor, sources)
    if index >= 0:
        return index, 0
    storage = tensor.untyped_storage()._cdata
    found = [i for i, s in enumerate(sources) if s.untyped_storage()._cdata == storage]
    if len(found) != 1 or tensor.numel() == 0:
        return None
    return found[0], tensor.data_ptr() - sources[found[0]].data_ptr()


def prototype_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same sizes, strides, dtype and device without memory."""
    with torch.inference_mode(False):
        prototype = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        prototype.untyped_storage().resize_(0)
    return prototype
