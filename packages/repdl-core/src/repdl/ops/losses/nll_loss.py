"""nll_loss: the negative log likelihood of class indices."""

from __future__ import annotations

from typing import Any

import torch

from repdl import registry
from repdl.callcache import ValueRange
from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dtype, check_size
from repdl.ops.declare.public import public
from repdl.ops.losses._loss import check_arguments, check_no_grad, check_targets, class_loss_checks
from repdl.registry.aten import computes
from repdl.registry.autocast import FLOAT32

__all__ = ["nll_loss"]

_check, _check_values = class_loss_checks("nll_loss")


def _fake(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    return input.new_empty(target.shape if reduction == "none" else ()), input.new_empty(())


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, target, weight, ctx.reduction, ctx.ignore_index, ctx.contract = inputs
    ctx.classes = input.shape[1]
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(target, weight, output[1])


def _backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
    target, weight, total_weight = ctx.saved_tensors
    grad_input = _nll_loss_backward(
        grad, target, weight, total_weight, ctx.classes, ctx.reduction, ctx.ignore_index, ctx.contract
    )
    return grad_input, None, None, None, None, None


_nll_loss = registry.define(
    "nll_loss",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index, str contract) -> (Tensor, Tensor)",
    check=_check,
    check_values=_check_values,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    autocast=FLOAT32,
    fixed=("weight",),
    dtypes=Dtypes(outputs=("input", ""), parameters=(("weight",),), integers=("target",)),
)


def _check_backward(
    grad: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    classes: int,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> None:
    check_dtype("nll_loss_backward", (torch.int64,), target=target)
    check("nll_loss_backward", target.dim() >= 1, "target.dim() is 0, expected 1 or more (N, ...)")
    expected = tuple(target.shape) if reduction == "none" else ()
    check_size("nll_loss_backward", "grad.shape", tuple(grad.shape), expected, "the shape of the loss")


def _check_values_backward(
    grad: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    classes: int,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> ValueRange | None:
    return check_targets("nll_loss_backward", target, classes, ignore_index)


def _fake_backward(
    grad: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    total_weight: torch.Tensor,
    classes: int,
    reduction: str,
    ignore_index: int,
    contract: str,
) -> torch.Tensor:
    return grad.new_empty((target.shape[0], classes, *target.shape[1:]))


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, target, weight, _, _, ctx.reduction, ctx.ignore_index, ctx.contract = inputs
    ctx.save_for_backward(target, weight)


def _twice(ctx: Any, cotangent: torch.Tensor) -> Any:
    to_grad, _ = _nll_loss(cotangent, *ctx.saved_tensors, ctx.reduction, ctx.ignore_index, ctx.contract)
    return to_grad, *[None] * 7


_nll_loss_backward = registry.define(
    "nll_loss_backward",
    "(Tensor grad, Tensor target, Tensor? weight, Tensor total_weight, int classes, str reduction, "
    "int ignore_index, str contract) -> Tensor",
    check=_check_backward,
    check_values=_check_values_backward,
    fake=_fake_backward,
    setup_context=_setup_backward,
    backward=_twice,
    fixed=("weight", "total_weight"),
    is_slope=lambda grad, target, weight, total_weight, classes, reduction, *_: reduction != "mean",
    dtypes=Dtypes(statistics=("total_weight",), parameters=(("weight",),), integers=("target",)),
    family="nll_loss",
)


@public("nll_loss")
def nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> torch.Tensor:
    """Negative log likelihood `(N, C, ...), (N, ...) -> ()`, any floating-point dtype, of int64 class indices.

    Args:
        input: log-probabilities, (N, C, ...) or (C).
        target: classes, (N, ...) or (); those equal to `ignore_index` do not count.
        weight: (C), the weight of each class, or None.
        reduction: 'mean' (over the weights), 'sum', or 'none' for the shape of target.

    Raises:
        ShapeError: if shapes do not fit together or a target is out of range.
    """
    ignore_index = check_arguments("nll_loss", input, target, weight, reduction, ignore_index)
    check_no_grad("nll_loss", weight=weight)
    single = input.dim() == 1 and target.dim() == 0
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    loss = _nll_loss(input, target, weight, reduction, ignore_index, contract)[0]
    return loss.squeeze(0) if single and reduction == "none" else loss


computes("nll_loss_nd", "nll_loss2d")(nll_loss)
