"""Reproducible layers with the names, options and state dicts of `torch.nn`.

`repdl.nn.Linear` is a `torch.nn.Linear` whose forward and backward follow a contract;
`repdl.from_torch_module(model)` converts a whole model. Containers and layers without
arithmetic (`Sequential`, `Flatten`, `Identity`, ...) are torch's own classes.
"""

from __future__ import annotations

from repdl.nn import functional, init, modules
from repdl.nn.conversions import keep, register_conversion
from repdl.nn.convert import from_torch_module
from repdl.nn.modules import *

__all__ = ["from_torch_module", "functional", "init", "keep", "register_conversion", *modules.__all__]  # type: ignore[attr-defined]
