"""torch's own classes: containers, and layers that only move data."""

from __future__ import annotations

from torch.nn import (
    ChannelShuffle,
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
)

__all__ = [
    "ChannelShuffle",
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
]
