"""Reproducible functions with the signatures of torch's functions of the same names.

Each takes `contract=` (a `repdl.Contract` or its name) beside torch's arguments. Ops of
other projects, registered through the entry-point group `repdl.ops`, are reached here
under their own names.
"""

from __future__ import annotations

from typing import Any

from repdl.ops.activation import gelu, hardswish, leaky_relu, silu, softplus
from repdl.ops.addmm import addmm
from repdl.ops.batch_norm import batch_norm
from repdl.ops.cast import cast
from repdl.ops.conv2d import conv2d
from repdl.ops.cross_entropy import cross_entropy
from repdl.ops.elementwise import add, div, maximum, minimum, mul, sub
from repdl.ops.group_norm import group_norm, instance_norm
from repdl.ops.layer_norm import layer_norm
from repdl.ops.linear import linear
from repdl.ops.losses import binary_cross_entropy_with_logits, huber_loss, kl_div, l1_loss, mse_loss
from repdl.ops.matmul import bmm, matmul, mm
from repdl.ops.max import max
from repdl.ops.max_pool2d import max_pool2d
from repdl.ops.nll_loss import nll_loss
from repdl.ops.pad import pad
from repdl.ops.pow import pow
from repdl.ops.rms_norm import rms_norm
from repdl.ops.softmax import log_softmax, softmax
from repdl.ops.steps import adam_step, sgd_step
from repdl.ops.sum import mean, sum
from repdl.ops.ternary import addcdiv, addcmul, clamp, lerp, where
from repdl.ops.unary import (
    abs,
    cos,
    erf,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    log10,
    neg,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    tanh,
)
from repdl.plugins import load


def __getattr__(name: str) -> Any:
    return load(name)


__all__ = [
    "abs",
    "adam_step",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "bmm",
    "cast",
    "clamp",
    "conv2d",
    "cos",
    "cross_entropy",
    "div",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "gelu",
    "group_norm",
    "hardswish",
    "huber_loss",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "lerp",
    "linear",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "matmul",
    "max",
    "max_pool2d",
    "maximum",
    "mean",
    "minimum",
    "mm",
    "mse_loss",
    "mul",
    "neg",
    "nll_loss",
    "pad",
    "pow",
    "reciprocal",
    "relu",
    "rms_norm",
    "rsqrt",
    "sgd_step",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "sub",
    "sum",
    "tanh",
    "where",
]
