"""nll_loss: the negative log likelihood of class indices."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_dtype, check_least_dim, check_size
from repdl.ops.declare import public
from repdl.ops.losses._loss import check_arguments, check_class_loss, check_class_targets, check_no_grad, check_targets
from repdl.registry import FLOAT32, computes, define, functions as _ops

__all__ = ["nll_loss"]


define(
    "nll_loss",
    "(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index, str contract) "
    "-> (Tensor output, Tensor total_weight)",
    check=check_class_loss,
    check_values=check_class_targets,
    fake=lambda input, target, reduction: (
        input.new_empty(target.shape if reduction == "none" else ()),
        input.new_empty(()),
    ),
    gradients={"classes": lambda input_shape: input_shape[1], "input": "nll_loss_backward"},
    autocast=FLOAT32,
    fixed=("weight",),
    dtypes=Dtypes(outputs=("input", ""), parameters=(("weight",),), integers=("target",)),
)


def _check_backward(op: str, grad: Tensor, target: Tensor, reduction: str) -> None:
    check_dtype(op, (torch.int64,), target=target)
    check_least_dim(op, 1, "(N, ...)", target=target)
    expected = tuple(target.shape) if reduction == "none" else ()
    check_size(op, "grad.shape", grad.shape, expected, "the shape of the loss")


define(
    "nll_loss_backward",
    "(Tensor grad, Tensor target, Tensor? weight, Tensor total_weight, int classes, str reduction, "
    "int ignore_index, str contract) -> Tensor",
    check=_check_backward,
    check_values=check_targets,
    fake=lambda grad, target, classes: grad.new_empty((target.shape[0], classes, *target.shape[1:])),
    gradients={
        "grad": lambda g, target, weight, reduction, ignore_index, contract: _ops.nll_loss(
            g, target, weight, reduction, ignore_index, contract
        )[0]
    },
    fixed=("weight", "total_weight"),
    is_slope=lambda reduction: reduction != "mean",
    dtypes=Dtypes(statistics=("total_weight",), parameters=(("weight",),), integers=("target",)),
    family="nll_loss",
)


@public("nll_loss")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
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
    loss = _ops.nll_loss(input, target, weight, reduction, ignore_index, contract)[0]
    return loss.squeeze(0) if single and reduction == "none" else loss


computes("nll_loss_nd", "nll_loss2d")(nll_loss)
