"""sgd_step: one step of stochastic gradient descent over a list of parameters, in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import registry
from repdl.ops._step import check_lists


def _check(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momentum_buffers: Sequence[torch.Tensor],
    lr: float,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> None:
    check_lists("sgd_step", params, grads=(grads, True), momentum_buffers=(momentum_buffers, momentum != 0))


def _fake(*args: object) -> None:
    return None


_op = registry.define(
    "sgd_step",
    "(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, float lr, float weight_decay, "
    "float momentum, float dampening, bool nesterov, bool maximize, bool first) -> ()",
    check=_check,
    fake=_fake,
)


def sgd_step(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momentum_buffers: Sequence[torch.Tensor] = (),
    *,
    lr: float,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    first: bool = False,
) -> None:
    """Update `params` and `momentum_buffers` in place, float32 or float64, tensors of any shape and strides.

    Args:
        momentum_buffers: one tensor a parameter if `momentum` is not 0, else empty.
        first: the buffers hold nothing yet; they are set to the gradient.

    Raises:
        ShapeError: if lists differ in length, tensors of one parameter in shape, or
            memory that is written is shared.
        DTypeError, DeviceError, UnsupportedError: if dtypes, devices or layouts are not
            those of the contract. Nothing has been changed then.

    Contract: sgd_step v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """
    if not (params or grads or momentum_buffers):
        return
    _op(params, grads, momentum_buffers, lr, weight_decay, momentum, dampening, nesterov, maximize, first)
