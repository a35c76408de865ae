"""torch's own classes: containers, and layers without arithmetic."""

from __future__ import annotations

from torch.nn import Flatten, Identity, Module, ModuleDict, ModuleList, Parameter, Sequential, Unflatten

__all__ = ["Flatten", "Identity", "Module", "ModuleDict", "ModuleList", "Parameter", "Sequential", "Unflatten"]
