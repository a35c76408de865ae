"""cross_entropy: of class indices in one op; of probabilities, or smoothed, a formula over others."""

from __future__ import annotations

from typing import Any

import torch

from repdl import registry
from repdl.callcache import ValueRange
from repdl.contract import ContractLike
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.activation.softmax import log_softmax
from repdl.ops.common import arithmetic
from repdl.ops.common.scalar import constant
from repdl.ops.declare.public import public
from repdl.ops.losses._loss import (
    check_arguments,
    check_class_loss,
    check_no_grad,
    check_reduction,
    check_targets,
    class_loss_checks,
)
from repdl.ops.losses.nll_loss import nll_loss
from repdl.ops.pointwise.cast import cast, narrowed, widened
from repdl.ops.pointwise.elementwise import add, div, mul
from repdl.ops.pointwise.unary import neg
from repdl.ops.reduction.sum import mean, sum
from repdl.registry.arguments import as_float
from repdl.registry.aten import computes
from repdl.registry.autocast import FLOAT32

__all__ = ["cross_entropy"]

Tensor = torch.Tensor

_ops = registry.functions


_check, _check_values = class_loss_checks("cross_entropy")


def _fake(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, ...]:
    loss = input.new_empty(target.shape if reduction == "none" else ())
    return loss, input.new_empty(()), input.new_empty(target.shape), input.new_empty(target.shape)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, target, weight, ctx.reduction, ctx.ignore_index, ctx.contract = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(input, target, weight, *output[1:])


def _backward(ctx: Any, grad: torch.Tensor, *_: Any) -> Any:
    grad_input = _cross_entropy_backward(grad, *ctx.saved_tensors, ctx.reduction, ctx.ignore_index, ctx.contract)
    return grad_input, None, None, None, None, None


_cross_entropy = registry.define(
    "cross_entropy",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index, str contract) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    check=_check,
    check_values=_check_values,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    autocast=FLOAT32,
    fixed=("weight",),
    dtypes=Dtypes(SINGLE, outputs=("input", "", "", ""), parameters=(("weight",),), integers=("target",)),
)


def _check_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    max: torch.Tensor,
    sum: torch.Tensor,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> None:
    op = "cross_entropy_backward"
    check_class_loss(op, input, target, weight, reduction)
    check_size(op, "grad.shape", list(grad.shape), list(target.shape) if reduction == "none" else [], "the loss's")
    for name, tensor in (("max", max), ("sum", sum)):
        check_size(op, f"{name}.shape", list(tensor.shape), list(target.shape), "target.shape")


def _check_values_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    max: torch.Tensor,
    sum: torch.Tensor,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> ValueRange | None:
    return check_targets("cross_entropy_backward", target, input.shape[1], ignore_index)


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    grad, input, target, weight, total_weight, _, _, ctx.reduction, ctx.ignore_index, ctx.contract = inputs
    ctx.save_for_backward(grad, input, target, weight, total_weight)


def _twice(ctx: Any, cotangent: torch.Tensor) -> Any:
    grad, input, target, weight, total_weight = ctx.saved_tensors
    dtype, (x, g, w, u) = widened(input, grad, weight, cotangent)
    options = ctx.reduction, ctx.ignore_index, ctx.contract

    def mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return _ops.mul(a, b, ctx.contract)

    def over_classes(a: torch.Tensor) -> torch.Tensor:
        return _ops.sum(a, [1], True, ctx.contract)

    p = _ops.softmax(x, 1, ctx.contract)
    centred = _ops.sub(u, over_classes(mul(u, p)), ctx.contract)
    of_targets = _ops.nll_loss_backward(g, target, w, total_weight, x.shape[1], *options)
    to_grad, _ = _ops.nll_loss(centred, target, w, *options)
    to_input = _ops.neg(mul(mul(p, centred), over_classes(of_targets)))
    return narrowed(to_grad, dtype), narrowed(to_input, dtype), *[None] * 8


_cross_entropy_backward = registry.define(
    "cross_entropy_backward",
    "(Tensor grad, Tensor input, Tensor target, Tensor? weight, Tensor total_weight, Tensor max, Tensor sum, "
    "str reduction, int ignore_index, str contract) -> Tensor",
    check=_check_backward,
    check_values=_check_values_backward,
    fake=lambda grad, input, *_: input.new_empty(input.shape),
    setup_context=_setup_backward,
    backward=_twice,
    dtypes=Dtypes(SINGLE, statistics=("total_weight", "max", "sum"), parameters=(("weight",),), integers=("target",)),
    is_slope=False,
    family="cross_entropy",
)


def _reduced(losses: torch.Tensor, count: torch.Tensor | None, reduction: str, contract: str) -> torch.Tensor:
    """`losses`, their sum, or that divided by `count` (None: by their number)."""
    if reduction == "none":
        return losses
    if reduction == "mean" and count is None:
        return mean(losses, contract=contract)
    total = sum(losses, contract=contract)
    return total if count is None or reduction == "sum" else div(total, count, contract=contract)


def _kept_and_spread(label_smoothing: float, classes: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a target keeps, `1 - label_smoothing`, and what each class gets of the rest: doubles, then rounded."""
    a, one, n = (constant(value, torch.float64, like.device) for value in (label_smoothing, 1.0, classes))
    return cast(arithmetic.sub(one, a), like.dtype), cast(arithmetic.div(a, n), like.dtype)


def _check_probabilities(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    label_smoothing: float,
    contract: str,
) -> None:
    op = "cross_entropy"
    check(op, input.dim() >= 2, lambda: f"input.dim() is {input.dim()}, expected 2 or more (N, C, ...)")
    check_size(op, "target.shape", tuple(target.shape), tuple(input.shape), "input.shape")
    if weight is not None:
        check_dim(op, 1, weight=weight)
        check_size(op, "weight.shape[0]", weight.shape[0], input.shape[1], "input.shape[1], the classes")


def _of_probabilities(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    label_smoothing: float,
    contract: str,
) -> torch.Tensor:
    classes = input.shape[1]
    if label_smoothing > 0:
        kept, spread = _kept_and_spread(label_smoothing, classes, target)
        target = add(mul(target, kept, contract=contract), spread, contract=contract)
    terms = mul(log_softmax(input, 1, contract=contract), target, contract=contract)
    if weight is not None:
        terms = mul(terms, weight.reshape(-1, *[1] * (input.dim() - 2)), contract=contract)
    losses = neg(sum(terms, 1, contract=contract))
    if reduction != "mean":
        return _reduced(losses, None, reduction, contract)
    return div(sum(losses, contract=contract), input.numel() // (classes or 1), contract=contract)


_cross_entropy_of_probabilities = registry.composite(
    "cross_entropy_of_probabilities",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, float label_smoothing, str contract) -> Tensor",
    _of_probabilities,
    calls=("log_softmax", "mul", "add", "sub", "neg", "sum", "div"),
    check=_check_probabilities,
    fixed=("weight",),
    dtypes=Dtypes(SINGLE),
    autocast=FLOAT32,
    family="cross_entropy",
)


def _smoothed(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    contract: str,
) -> torch.Tensor:
    weight = None if weight is None else weight.detach()  # it has no gradient
    log_p = log_softmax(input, 1, contract=contract)
    loss = nll_loss(log_p, target, weight, ignore_index=ignore_index, reduction=reduction, contract=contract)
    terms = log_p
    if weight is not None:
        terms = mul(log_p, weight.reshape(-1, *[1] * (input.dim() - 2)), contract=contract)
    smooth = neg(sum(terms, 1, contract=contract))
    counted = target != ignore_index
    smooth = torch.where(counted, smooth, torch.zeros_like(smooth))
    if reduction == "mean":
        ones = torch.where(counted, torch.ones_like(smooth), torch.zeros_like(smooth))
        if weight is not None:
            ones = torch.where(counted, weight[torch.where(counted, target, 0)], torch.zeros_like(smooth))
        smooth = div(sum(smooth, contract=contract), sum(ones, contract=contract), contract=contract)
    elif reduction == "sum":
        smooth = sum(smooth, contract=contract)
    kept, spread = _kept_and_spread(label_smoothing, input.shape[1], input)
    return add(mul(loss, kept, contract=contract), mul(smooth, spread, contract=contract), contract=contract)


_cross_entropy_smoothed = registry.composite(
    "cross_entropy_smoothed",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index, float label_smoothing, "
    "str contract) -> Tensor",
    _smoothed,
    calls=("log_softmax", "nll_loss", "mul", "add", "sub", "neg", "sum", "div"),
    check=lambda input, target, weight, reduction, *_: check_class_loss(
        "cross_entropy", input, target, weight, reduction
    ),
    fixed=("weight",),
    dtypes=Dtypes(SINGLE, parameters=(("weight",),), integers=("target",)),
    autocast=FLOAT32,
    family="cross_entropy",
)


@public("cross_entropy")
def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    contract: ContractLike = None,
) -> torch.Tensor:
    """Cross entropy of logits `(N, C, ...), (N, ...) -> ()`, float32 or 16-bit floats.

    Args:
        input: logits, (N, C, ...) or (C).
        target: int64 classes, (N, ...) or (), those equal to `ignore_index` not counting;
            or probabilities of the dtype and shape of input.
        weight: (C), the weight of each class, or None.
        reduction: 'mean', 'sum', or 'none' for a loss each.
        label_smoothing: from 0 to 1, how far targets move to the uniform distribution.

    Raises:
        ShapeError: if shapes do not fit together, a class or `label_smoothing` is out of range.
    """
    op = "cross_entropy"
    ignore_index = check_arguments(op, input, target, weight, reduction, ignore_index)
    label_smoothing = as_float(op, "label_smoothing", label_smoothing)
    check_reduction(op, reduction)
    check(op, 0 <= label_smoothing <= 1, lambda: f"label_smoothing is {label_smoothing}, expected 0 to 1")
    check(op, input.dim() >= 1, "input.dim() is 0, expected 1 or more: (C) or (N, C, ...)")
    single = input.dim() == 1
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    if target.is_floating_point():
        check(
            op,
            ignore_index < 0,
            lambda: f"ignore_index is {ignore_index} with probabilities as target, expected a negative one",
        )
        loss = _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing, contract)
    elif label_smoothing > 0:
        check_no_grad(op, weight=weight)
        loss = _cross_entropy_smoothed(input, target, weight, reduction, ignore_index, label_smoothing, contract)
    else:
        check_no_grad(op, weight=weight)
        loss = _cross_entropy(input, target, weight, reduction, ignore_index, contract)[0]
    return loss.squeeze(0) if single and reduction == "none" else loss


computes("cross_entropy_loss")(cross_entropy)
