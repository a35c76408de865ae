"""The layers, one family a file. Containers and layers without arithmetic are torch's own."""

from __future__ import annotations

from torch.nn import Flatten, Identity, Module, ModuleDict, ModuleList, Parameter, Sequential, Unflatten

from repdl.nn.modules.activation import LogSoftmax, ReLU, Softmax
from repdl.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d
from repdl.nn.modules.conv import Conv2d
from repdl.nn.modules.layer import Layer
from repdl.nn.modules.linear import Linear
from repdl.nn.modules.loss import CrossEntropyLoss, NLLLoss
from repdl.nn.modules.pooling import MaxPool2d

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
]
