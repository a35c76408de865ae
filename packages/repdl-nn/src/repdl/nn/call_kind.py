"""Which calls of a model count as alike: the check of first calls looks at the first one of each kind.

A kind is what a `forward` most often branches on and what can be read off a call in a microsecond or two: the modes,
and of each argument whether and what it is. Not in it are numbers and the values of tensors, sizes beyond 1, and what
the model itself remembers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

import torch

Kind = tuple[Any, ...]
"""Training or not, gradients enabled or not, autocast or not, and the kinds of the arguments."""

_MOST = 8  # of the items of a container; the next are like these


def call_kind(training: bool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Kind:
    """The kind of a call with these arguments, now and in this thread."""
    autocast = torch._C._is_any_autocast_enabled()  # type: ignore[attr-defined]
    named = tuple([(name, _kind(value)) for name, value in kwargs.items()]) if kwargs else ()
    return training, torch.is_grad_enabled(), autocast, tuple([_kind(value) for value in args]), named


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        shape = () if value.is_nested else value.shape
        sizes = len(shape) if min(shape, default=2) > 1 else tuple([min(size, 2) for size in shape])
        return value.dtype, value.requires_grad, sizes
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value), *[_kind(item) for item in value[:_MOST]]
    if isinstance(value, Mapping):
        return type(value), *[(key, _kind(item)) for key, item in islice(value.items(), _MOST)]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), *[_kind(getattr(value, field.name, None)) for field in fields(value)]
    return type(value)


__all__ = ["Kind", "call_kind"]
