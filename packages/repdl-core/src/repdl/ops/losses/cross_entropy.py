"""cross_entropy: of class indices in one op; of probabilities, or smoothed, a formula over others."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_least_dim, check_size
from repdl.ops.activation.softmax import log_softmax
from repdl.ops.common import arithmetic, constant, narrowed, widened
from repdl.ops.declare import public
from repdl.ops.losses._loss import (
    check_arguments,
    check_class_loss,
    check_class_targets,
    check_class_weight,
    check_no_grad,
    check_reduction,
)
from repdl.ops.losses.nll_loss import nll_loss
from repdl.ops.pointwise.cast import cast
from repdl.ops.pointwise.elementwise import add, div, mul
from repdl.ops.pointwise.unary import neg
from repdl.ops.reduction.sum import mean, sum
from repdl.registry import FLOAT32, as_float, composite, computes, define, functions as _ops

__all__ = ["cross_entropy"]


define(
    "cross_entropy",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index, str contract) "
    "-> (Tensor output, Tensor total_weight, Tensor max, Tensor sum)",
    check=check_class_loss,
    check_values=check_class_targets,
    fake=lambda input, target, reduction: (
        input.new_empty(target.shape if reduction == "none" else ()),
        input.new_empty(()),
        *(input.new_empty(target.shape) for _ in ("max", "sum")),
    ),
    gradients={"input": "cross_entropy_backward"},
    autocast=FLOAT32,
    fixed=("weight",),
    dtypes=Dtypes(outputs=("input", "", "", ""), parameters=(("weight",),), integers=("target",)),
)


def _check_backward(
    op: str,
    grad: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    max: Tensor,
    sum: Tensor,
    reduction: str,
) -> None:
    check_class_loss(op, input, target, weight, reduction)
    check_size(op, "grad.shape", list(grad.shape), list(target.shape) if reduction == "none" else [], "the loss's")
    for name, tensor in (("max", max), ("sum", sum)):
        check_size(op, f"{name}.shape", list(tensor.shape), list(target.shape), "target.shape")


def _twice(
    g: Tensor,
    grad: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total_weight: Tensor,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[Tensor, Tensor]:
    dtype, (x, wide, w, u) = widened(input, grad, weight, g)
    options = reduction, ignore_index, contract

    def mul(a: Tensor, b: Tensor) -> Tensor:
        return _ops.mul(a, b, contract)

    def over_classes(a: Tensor) -> Tensor:
        return _ops.sum(a, [1], True, contract)

    p = _ops.softmax(x, 1, contract)
    centred = _ops.sub(u, over_classes(mul(u, p)), contract)
    of_targets = _ops.nll_loss_backward(wide, target, w, total_weight, x.shape[1], *options)
    to_grad, _ = _ops.nll_loss(centred, target, w, *options)
    to_input = _ops.neg(mul(mul(p, centred), over_classes(of_targets)))
    return narrowed(to_grad, dtype), narrowed(to_input, dtype)


define(
    "cross_entropy_backward",
    "(Tensor grad, Tensor input, Tensor target, Tensor? weight, Tensor total_weight, Tensor max, Tensor sum, "
    "str reduction, int ignore_index, str contract) -> Tensor",
    check=_check_backward,
    check_values=check_class_targets,
    fake=lambda input: input.new_empty(input.shape),
    gradients={("grad", "input"): _twice},
    dtypes=Dtypes(statistics=("total_weight", "max", "sum"), parameters=(("weight",),), integers=("target",)),
    is_slope=False,
    family="cross_entropy",
)


def _reduced(losses: Tensor, count: Tensor | None, reduction: str, contract: str) -> Tensor:
    """`losses`, their sum, or that divided by `count` (None: by their number)."""
    if reduction == "none":
        return losses
    if reduction == "mean" and count is None:
        return mean(losses, contract=contract)
    total = sum(losses, contract=contract)
    return total if count is None or reduction == "sum" else div(total, count, contract=contract)


def _kept_and_spread(label_smoothing: float, classes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """What a target keeps, `1 - label_smoothing`, and what each class gets of the rest: doubles, then rounded."""
    a, one, n = (constant(value, torch.float64, like.device) for value in (label_smoothing, 1.0, classes))
    return cast(arithmetic.sub(one, a), like.dtype), cast(arithmetic.div(a, n), like.dtype)


def _check_probabilities(input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    op = "cross_entropy"
    check_least_dim(op, 2, "(N, C, ...)", input=input)
    check_size(op, "target.shape", target.shape, input.shape, "input.shape")
    check_class_weight(op, input, weight)


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float, contract: str
) -> Tensor:
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


composite(
    "cross_entropy_of_probabilities",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, float label_smoothing, str contract) -> Tensor",
    _of_probabilities,
    calls=("log_softmax", "mul", "add", "sub", "neg", "sum", "div"),
    check=_check_probabilities,
    fixed=("weight",),
    dtypes=Dtypes(),
    autocast=FLOAT32,
    family="cross_entropy",
)


def _smoothed(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    contract: str,
) -> Tensor:
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


composite(
    "cross_entropy_smoothed",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index, float label_smoothing, "
    "str contract) -> Tensor",
    _smoothed,
    calls=("log_softmax", "nll_loss", "mul", "add", "sub", "neg", "sum", "div"),
    check=lambda input, target, weight, reduction: check_class_loss("cross_entropy", input, target, weight, reduction),
    fixed=("weight",),
    dtypes=Dtypes(parameters=(("weight",),), integers=("target",)),
    autocast=FLOAT32,
    family="cross_entropy",
)


@public("cross_entropy")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Cross entropy of logits `(N, C, ...), (N, ...) -> ()`, any floating-point dtype.

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
        loss = _ops.cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing, contract)
    elif label_smoothing > 0:
        check_no_grad(op, weight=weight)
        loss = _ops.cross_entropy_smoothed(input, target, weight, reduction, ignore_index, label_smoothing, contract)
    else:
        check_no_grad(op, weight=weight)
        loss = _ops.cross_entropy(input, target, weight, reduction, ignore_index, contract)[0]
    return loss.squeeze(0) if single and reduction == "none" else loss


computes("cross_entropy_loss")(cross_entropy)
