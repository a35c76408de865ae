"""torch's own parameters and buffers, under the name of `torch.nn.parameter`."""

from __future__ import annotations

from torch.nn.parameter import (  # type: ignore[attr-defined]
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
    is_lazy,
)

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]
