"""A convolution or linear layer with the normalisation after it, as one layer."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from repdl import ops
from repdl.contract import Contract, contract_name
from repdl.errors import check, check_tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

Tensor = torch.Tensor
Parameter = torch.nn.Parameter
Conv = TypeVar("Conv", bound=_ConvNd)
Linear = TypeVar("Linear", bound=torch.nn.Linear)
Fusible = TypeVar("Fusible", bound=torch.nn.Module)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
    *,
    contract: Contract | str | None = None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that is followed by a normalisation with fixed statistics.

    With k = `bn_w * (1 / sqrt(bn_rv + eps))`, for each output channel: `conv_w * k` and
    `(conv_b - bn_rm) * k + bn_b`, each operation rounded once; a `bn_w` of None is 1, `conv_b` and `bn_b` are 0. The
    results are then rounded to the dtypes of `conv_w` and `conv_b`: 16-bit floats beside float32 are widened before.
    What the fused layer computes has other roundings than the two layers.

    Raises:
        ShapeError, DTypeError, DeviceError: if the tensors do not fit together.

    Contract: elementwise v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fusion.fuse_conv_bn_weights.html
    """
    axis = 1 if transpose else 0
    shape = [1] * conv_w.dim()
    shape[axis] = -1
    return _fused("fuse_conv_bn_weights", conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape, contract)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    *,
    contract: Contract | str | None = None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that is followed by a normalisation; see `fuse_conv_bn_weights`."""
    return _fused("fuse_linear_bn_weights", linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1], contract)


def fuse_conv_bn_eval(
    conv: Conv, bn: _BatchNorm, transpose: bool = False, *, contract: Contract | str | None = None
) -> Conv:
    """A copy of `conv` that computes what `conv` and `bn` after it compute, both in eval mode.

    Raises:
        RuntimeError: in training mode, or without running statistics.
        ShapeError, DTypeError, DeviceError: if the layers do not fit together.

    Contract: see `fuse_conv_bn_weights`.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fusion.fuse_conv_bn_eval.html
    """
    fused, statistics = _copied("fuse_conv_bn_eval", conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, *statistics, bn.eps, bn.weight, bn.bias, transpose, contract=contract
    )
    return fused


def fuse_linear_bn_eval(linear: Linear, bn: _BatchNorm, *, contract: Contract | str | None = None) -> Linear:
    """A copy of `linear` that computes what `linear` and `bn` after it compute, both in eval mode.

    Raises:
        RuntimeError: in training mode, or without running statistics.
        ShapeError, DTypeError, DeviceError: if the layers do not fit together.

    Contract: see `fuse_conv_bn_weights`.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fusion.fuse_linear_bn_eval.html
    """
    op, features = "fuse_linear_bn_eval", linear.out_features
    check(op, bn.num_features == features, lambda: f"bn.num_features is {bn.num_features}, expected {features}")
    fused, statistics = _copied(op, linear, bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, *statistics, bn.eps, bn.weight, bn.bias, contract=contract
    )
    return fused


def _copied(op: str, layer: Fusible, bn: _BatchNorm) -> tuple[Fusible, tuple[Tensor, Tensor]]:
    if layer.training or bn.training:
        raise RuntimeError(f"{op}: a layer is in training mode, expected both in eval mode; call .eval() first")
    if bn.running_mean is None or bn.running_var is None:
        raise RuntimeError(f"{op}: bn has no running statistics, expected track_running_stats=True")
    return copy.deepcopy(layer), (bn.running_mean, bn.running_var)


@torch.no_grad()
def _fused(
    op: str,
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    shape: list[int],
    contract: Contract | str | None,
) -> tuple[Parameter, Parameter]:
    name = contract_name(contract)
    check_tensor(op, weight=weight, running_mean=mean, running_var=var)
    factor = ops.div(1.0, ops.sqrt(ops.add(var, eps, contract=name)), contract=name)
    if scale is not None:
        factor = ops.mul(scale, factor, contract=name)
    beginning = torch.zeros_like(mean) if bias is None else bias
    offset = ops.mul(ops.sub(beginning, mean, contract=name), factor, contract=name)
    if shift is not None:
        offset = ops.add(offset, shift, contract=name)
    product = ops.cast(ops.mul(weight, factor.reshape(shape), contract=name), weight.dtype)
    dtype = weight.dtype if bias is None else bias.dtype
    return (
        Parameter(product, weight.requires_grad),
        Parameter(ops.cast(offset, dtype), weight.requires_grad if bias is None else bias.requires_grad),
    )
