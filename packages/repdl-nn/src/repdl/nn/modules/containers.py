"""torch's own classes: containers, and layers that only move data."""

from __future__ import annotations

from torch.nn import (
    Buffer,
    ChannelShuffle,
    Container,
    Flatten,
    Identity,
    Module,
    ModuleDict,
    ModuleList,
    Parameter,
    ParameterDict,
    ParameterList,
    PixelShuffle,
    PixelUnshuffle,
    Sequential,
    Unflatten,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "Buffer",
    "ChannelShuffle",
    "Container",
    "Flatten",
    "Identity",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PixelUnshuffle",
    "Sequential",
    "Unflatten",
    "UninitializedBuffer",
    "UninitializedParameter",
]
