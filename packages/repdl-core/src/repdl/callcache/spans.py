"""The memory spans of the tensors of a call: whose memory a tensor is, and from which byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

from repdl.callcache.plan import Span

_RESHAPES = "ViewBackward0", "ReshapeAliasBackward0"


def is_on_host(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu"


def device_of(tensors: Sequence[torch.Tensor]) -> torch.device:
    """The first one that is not the host, if there is one."""
    return next((t.device for t in tensors if not is_on_host(t)), torch.device("cpu"))


def tensors_of(*groups: Sequence[Any]) -> list[torch.Tensor]:
    return [value for group in groups for value in group if isinstance(value, torch.Tensor)]


def flat(values: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among values, and in lists among them."""
    return tensors_of(*(value if isinstance(value, (list, tuple)) else (value,) for value in values))


def unique(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(t): t for t in tensors}.values())


def index_of(value: Any, tensors: Sequence[torch.Tensor]) -> int | None:
    return next((i for i, t in enumerate(tensors) if t is value), None)


def span_of(tensor: torch.Tensor, sources: Sequence[torch.Tensor]) -> Span | None:
    """Where the memory of a tensor is; None: in none of the sources, or in more than one."""
    index = index_of(tensor, sources)
    if index is not None:
        return Span(index)
    storage = tensor.untyped_storage()._cdata
    found = [i for i, s in enumerate(sources) if s.untyped_storage()._cdata == storage]
    if len(found) != 1 or tensor.numel() == 0:
        return None
    return Span(found[0], tensor.data_ptr() - sources[found[0]].data_ptr())


def extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element of a tensor to the end of its last one."""
    if tensor.numel() == 0:
        return 0
    return tensor.itemsize * (1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())))


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


def reshaped_source(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The tensor that a value is in another shape; the value itself if it is one of them, or one of none or several:
    tensors of one call may share memory, and those of the next one not."""
    if index_of(value, tensors) is not None:
        return value
    found = [t for t in tensors if is_reshaped(value, t)]
    return found[0] if len(found) == 1 else value


def without_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same sizes, strides, dtype and device."""
    with torch.inference_mode(False):
        spec = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        spec.untyped_storage().resize_(0)
    return spec
