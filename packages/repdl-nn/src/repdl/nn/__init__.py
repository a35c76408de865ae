"""Reproducible layers with the names, options and state dicts of `torch.nn`.

`repdl.nn.Linear` is a `torch.nn.Linear` whose forward and backward follow a contract;
`repdl.from_torch_module(model)` converts a whole model. Containers and layers without
arithmetic (`Sequential`, `Flatten`, `Identity`, ...) are torch's own classes. A program may
import it in place of `torch.nn`: what that has and this has not raises an error that says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import factory_kwargs

from repdl.nn import common_types, functional, init, left_out, modules, parallel, parameter, utils
from repdl.nn.conversions import keep, register_conversion
from repdl.nn.convert import from_torch_module
from repdl.nn.modules import *

if not TYPE_CHECKING:
    __getattr__ = left_out.attribute("nn")

__all__ = [
    "common_types",
    "factory_kwargs",
    "from_torch_module",
    "functional",
    "init",
    "keep",
    "parallel",
    "parameter",
    "register_conversion",
    "utils",
    *modules.__all__,  # type: ignore[attr-defined]
]
