"""Reproducible layers with the names, options and state dicts of `torch.nn`.

`repdl.nn.Linear` is a `torch.nn.Linear` whose forward and backward follow a contract;
`repdl.from_torch_module(model)` converts a whole model. Containers and layers without
arithmetic (`Sequential`, `Flatten`, `Identity`, ...) are torch's own classes.
"""

from __future__ import annotations

from repdl.nn import functional
from repdl.nn.conversions import keep, register_conversion
from repdl.nn.convert import from_torch_module
from repdl.nn.modules import (
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Identity,
    Layer,
    Linear,
    LogSoftmax,
    MaxPool2d,
    Module,
    ModuleDict,
    ModuleList,
    NLLLoss,
    Parameter,
    ReLU,
    Sequential,
    Softmax,
    Unflatten,
)

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv2d",
    "CrossEntropyLoss",
    "Flatten",
    "Identity",
    "Layer",
    "Linear",
    "LogSoftmax",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "Sequential",
    "Softmax",
    "Unflatten",
    "from_torch_module",
    "functional",
    "keep",
    "register_conversion",
]
