"""Ops of torch that return, beside the result of a function, what its derivative needs.

torch's functions reach them where its own derivatives are taken, as with DTensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl import registry
from repdl.contract import contract_name
from repdl.dtypes import ALL
from repdl.errors import UnsupportedError, check_dtype
from repdl.ops.common import constant, narrowed, widened
from repdl.overrides.draws import torch_generator

Tensor = torch.Tensor
Function = Callable[..., Any]
_ops = registry.functions
_REDUCTIONS = "none", "mean", "sum"


def _native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    return _ops.layer_norm(input, list(normalized_shape), weight, bias, eps, contract_name(None))


def _native_layer_norm_backward(
    grad: Tensor, input: Tensor, normalized_shape: Sequence[int], mean: Tensor, rstd: Tensor, weight: Tensor | None,
    bias: Tensor | None, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    found = _ops.layer_norm_backward(grad, input, list(normalized_shape), mean, rstd, weight, contract_name(None))
    return tuple(g if want else None for g, want in zip(found, output_mask))


def _native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, pixels: int, groups: int, eps: float
) -> tuple[Tensor, ...]:
    if _is_differentiated(input, weight, bias):  # torch has derivatives of mean and rstd, the registered op has none
        raise UnsupportedError(
            "native_group_norm: an input requires a gradient, which mean and rstd would not have; "
            "call torch.nn.functional.group_norm, or torch.no_grad()"
        )
    return _ops.group_norm(input, groups, weight, bias, eps, contract_name(None))


def _is_differentiated(*tensors: Tensor | None) -> bool:
    """Whether a call is not one that a derivative of torch itself stands above."""
    is_below = torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradCPU)
    return torch.is_grad_enabled() and not is_below and any(t is not None and t.requires_grad for t in tensors)


def _native_group_norm_backward(
    grad: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, n: int, c: int, pixels: int,
    groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    found = _ops.group_norm_backward(grad, input, groups, mean, rstd, weight, contract_name(None))
    return tuple(g if want else None for g, want in zip(found, output_mask))


def _native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    position = torch_generator(None).position(input.numel())
    kept = _ops.dropout(torch.ones_like(input, dtype=torch.float32), position, p) != 0
    return _ops.dropout(input, position, p), kept


def _native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    check_dtype("native_dropout_backward", ALL, grad_output=grad)
    storage, (g,) = widened(grad)
    factor, zero = (constant(value, g.dtype, g.device) for value in (scale, 0.0))
    return narrowed(_ops.mul(g, torch.where(mask, factor, zero), contract_name(None)), storage)


def _nll_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    name, of_one = _REDUCTIONS[reduction], input.dim() == 1
    if of_one:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    loss, total_weight = _ops.nll_loss(input, target, weight, name, ignore_index, contract_name(None))
    return loss.squeeze(0) if of_one and name == "none" else loss, total_weight


def _nll_loss_backward(
    grad: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int,
    total_weight: Tensor,
) -> Tensor:  # fmt: skip
    name, of_one = _REDUCTIONS[reduction], input.dim() == 1
    if of_one:
        target = target.unsqueeze(0)
        grad = grad.unsqueeze(0) if name == "none" else grad
    classes = input.shape[0 if of_one else 1]
    options = classes, name, ignore_index, contract_name(None)
    found = _ops.nll_loss_backward(grad, target, weight, total_weight, *options)
    return found.squeeze(0) if of_one else found


SAVING: dict[str, Function] = {
    "native_layer_norm": _native_layer_norm,
    "native_layer_norm_backward": _native_layer_norm_backward,
    "native_group_norm": _native_group_norm,
    "native_group_norm_backward": _native_group_norm_backward,
    "native_dropout": _native_dropout,
    "native_dropout_backward": _native_dropout_backward,
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _nll_loss_forward),
    **dict.fromkeys(("nll_loss_backward", "nll_loss2d_backward"), _nll_loss_backward),
}
"""By torch's name, with the derivatives that take what was saved; each takes what the dispatcher gives."""

__all__ = ["SAVING"]
