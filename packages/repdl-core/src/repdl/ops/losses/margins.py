"""Losses of margins between elements: hinge_embedding_loss, margin_ranking_loss, multi_margin_loss,
multilabel_margin_loss, multilabel_soft_margin_loss, soft_margin_loss."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_broadcasts_to, check_dim, check_dtype, check_least_dim, check_size
from repdl.ops.common import places
from repdl.ops.declare import INFINITY, Expression, Written, f, public
from repdl.ops.indexing.gather import elements
from repdl.ops.losses._element_loss import element_loss, operands, scalar, with_target
from repdl.ops.losses._loss import check_classes, check_no_grad
from repdl.registry import FLOAT32_ON_CUDA, CaseSpec, as_float, as_int, functions as _ops

__all__ = [
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
]


def _hinge_embedding(x: Expression, y: Expression, margin: Expression) -> Expression:
    beyond = f.clamp(margin - x, 0, INFINITY)
    return f.where(y != 1, beyond, 0) + f.where(y != -1, x, 0)


def _multilabel_soft(input: Tensor, target: Tensor, weight: Tensor | None, c: str) -> Tensor:
    yes = _ops.mul(target, _ops.logsigmoid(input), c)
    no = _ops.mul(_ops.sub(scalar(1.0, target), target, c), _ops.logsigmoid(_ops.neg(input)), c)
    losses = _ops.neg(_ops.add(yes, no, c))
    return _over_classes(losses if weight is None else _ops.mul(losses, weight, c), input.shape[-1], c)


def _over_classes(losses: Tensor, classes: int, c: str) -> Tensor:
    """Their sum along the last dimension, divided by the number of classes."""
    total = _ops.sum(losses, [losses.dim() - 1], False, c)
    return _ops.div(total, scalar(classes, total), c)


element_loss(
    "hinge_embedding_loss(Tensor input, Tensor target, float margin, str reduction, str contract) -> Tensor",
    _hinge_embedding,
    cases=[(1.0,), (0.3,)],
    operands=("any", "sign"),
    fixed=("target",),
)
element_loss(
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin, str reduction, str contract) "
    "-> Tensor",
    lambda input1, input2, y, margin: f.clamp(-y * (input1 - input2) + margin, 0, INFINITY),
    cases=[(0.0,), (0.3,)],
    operands=("any", "any", "sign"),
)
element_loss(
    "soft_margin_loss(Tensor input, Tensor target, str reduction, str contract) -> Tensor",
    lambda x, y: -f.logsigmoid(y * x),
    operands=("any", "sign"),
)


def _check_multilabel_soft(op: str, input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    check_least_dim(op, 1, input=input)
    check_size(op, "target.shape", target.shape, input.shape, "input.shape")
    check_broadcasts_to(op, input.shape, weight=weight)


element_loss(
    "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight, str reduction, str contract) -> Tensor",
    Written(
        _multilabel_soft,
        "of each row along the last dimension, of C elements: `sum(l) / C`, `l = -(y * logsigmoid(x) + (1 - y) * "
        "logsigmoid(-x))`, with weight w times w",
    ),
    calls="mul logsigmoid sub neg add",
    check=_check_multilabel_soft,
    cases=CaseSpec("written"),
    autocast=FLOAT32_ON_CUDA,
)


def _elements_at(input: Tensor, index: Tensor, c: str) -> Tensor:
    """`(N, C), (N, K) -> (N, K)`: of each row the elements of these indices; one that is none raises."""
    within = (index >= 0) & (index < input.shape[1])
    return elements(input, torch.where(within, places(index, 1, input.shape), -1), c)


def _multi_margin(input: Tensor, target: Tensor, p: int, margin: float, weight: Tensor | None, c: str) -> Tensor:
    index = target.unsqueeze(1)
    gap = _ops.sub(scalar(margin, input), _elements_at(input, index, c), c)
    others, zero = torch.arange(input.shape[1], device=input.device) != index, scalar(0.0, input)
    losses = _ops.relu(_ops.add(gap, input, c))
    if p == 2:
        losses = _ops.square(_ops.where(others, losses, zero, c))
    if weight is not None:
        losses = _ops.mul(losses, _ops.embedding(weight.unsqueeze(1), index, -1, False, c).squeeze(-1), c)
    losses = _ops.where(others, losses, zero, c)
    return _over_classes(losses, input.shape[1], c)


def _check_classes(op: str, input: Tensor, target: Tensor) -> None:
    check_dim(op, 2, input=input)
    check(op, input.shape[1] > 0, "input.shape[1] is 0, expected a class at least")
    check_dtype(op, (torch.int64,), target=target)


def _check_multi_margin(op: str, input: Tensor, target: Tensor, p: int, weight: Tensor | None) -> None:
    _check_classes(op, input, target)
    check_size(op, "target.shape", target.shape, input.shape[:1], "input.shape[:1]")
    check(op, p in (1, 2), lambda: f"p is {p}, expected 1 or 2")
    if weight is not None:
        check_size(op, "weight.shape", weight.shape, input.shape[1:], "input.shape[1:], the classes")


element_loss(
    "multi_margin_loss(Tensor input, Tensor target, int p, float margin, Tensor? weight, str reduction, str contract) "
    "-> Tensor",
    Written(
        _multi_margin,
        "of each row of C elements, with class t: `sum(l) / C`, `l_j = relu((margin - x_t) + x_j)`, squared if "
        "p is 2, with weight w times w_t, and +0 for j = t",
    ),
    dtypes=Dtypes(integers=("target",)),
    calls="sub embedding relu add square mul where",
    check=_check_multi_margin,
    cases=CaseSpec("written"),
)


def _multilabel_margin(input: Tensor, target: Tensor, c: str) -> Tensor:
    classes = input.shape[1]
    listed = (target < 0).cumsum(1) == 0  # before the first negative index
    index = target.where(listed, 0)
    zeros = torch.zeros((input.shape[0], classes + 1), dtype=torch.bool, device=input.device)
    others = ~zeros.scatter(1, target.where(listed, classes), True)[:, :classes]
    gap = _ops.sub(scalar(1.0, input), _elements_at(input, index, c), c)
    losses = _ops.relu(_ops.add(gap.unsqueeze(2), input.unsqueeze(1), c))
    counted = listed.unsqueeze(2) & others.unsqueeze(1)
    losses = _ops.where(counted, losses, scalar(0.0, losses), c)
    return _over_classes(losses.flatten(1), classes, c)


def _check_multilabel_margin(op: str, input: Tensor, target: Tensor) -> None:
    _check_classes(op, input, target)
    check_size(op, "target.shape", target.shape, input.shape, "input.shape")


element_loss(
    "multilabel_margin_loss(Tensor input, Tensor target, str reduction, str contract) -> Tensor",
    Written(
        _multilabel_margin,
        "of each row of C elements, with the classes t_0, t_1, ... before the first negative one of its targets: "
        "`sum(l) / C`, l the C * C numbers `l_ij = relu((1 - x_(t_i)) + x_j)` in row-major order, +0 for an i "
        "without a class and for j among the classes",
    ),
    dtypes=Dtypes(integers=("target",)),
    calls="sub embedding relu add where",
    check=_check_multilabel_margin,
    cases=CaseSpec("written"),
)


@public("losses")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`input` where `target` is 1, `max(0, margin - input)` where it is -1; broadcast, any dtype, reduced.

    The result has the dtype of `input`, the default one for integers; `target` is converted to it.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
    """
    op = "hinge_embedding_loss"
    input, target = with_target(op, target, input=input)
    return _ops.hinge_embedding_loss(input, target.detach(), as_float(op, "margin", margin), reduction, contract)


@public("losses")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`max(0, -target * (input1 - input2) + margin)`, broadcast, any floating-point dtype, reduced.

    Raises:
        ShapeError: if the numbers of dimensions differ or the shapes do not broadcast, or for another `reduction`.
    """
    op = "margin_ranking_loss"
    input1, input2, target = operands(op, input1=input1, input2=input2, target=target)
    check_dim(op, input1.dim(), input2=input2, target=target)
    return _ops.margin_ranking_loss(input1, input2, target, as_float(op, "margin", margin), reduction, contract)


@public("losses")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`log(1 + exp(-target * input))`, broadcast, reduced; finite where torch's overflows.

    The result has the dtype of `input`, the default one for integers; `target` is converted to it.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
    """
    op = "soft_margin_loss"
    input, target = with_target(op, target, input=input)
    return _ops.soft_margin_loss(input, target, reduction, contract)


@public("losses")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`sum(max(0, margin - input[y] + input[j]) ** p) / C` over the classes j but the target y, reduced.

    `(N, C), (N) -> (N)`, or `(C), ()`; any floating-point dtype, targets int64.

    Args:
        p: 1 or 2.
        weight: of the classes, (C), a factor of the losses of their targets.

    Raises:
        ShapeError: if the shapes do not fit together, or for another `p` or `reduction`.
        OutOfRangeError: if a target is no class.
    """
    op = "multi_margin_loss"
    check_no_grad(op, weight=weight)
    p, margin = as_int(op, "p", p), as_float(op, "margin", margin)
    check_dim(op, (0, 1, 2), input=input)
    check_dim(op, (0, 1), target=target)
    check_classes(op, target, input.shape[-1] if input.dim() else 1)
    if input.dim() == 2:
        return _ops.multi_margin_loss(input, target, p, margin, weight, reduction, contract)
    loss = _ops.multi_margin_loss(input.reshape(1, -1), target.reshape(-1), p, margin, weight, reduction, contract)
    return loss.reshape(()) if reduction == "none" and target.dim() == 0 else loss


@public("losses")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`sum(max(0, 1 - (input[y] - input[j]))) / C` over the targets y and the classes j that are none, reduced.

    `(N, C), (N, C) -> (N)`, or `(C), (C) -> ()`; any floating-point dtype. The targets, int64, are the classes before
    the first -1 of a row. The C * C differences of a row are kept for the backward pass.

    Raises:
        ShapeError: if the shapes differ, or for another `reduction`.
        OutOfRangeError: if a target is no class.
    """
    op = "multilabel_margin_loss"
    check_dim(op, (0, 1, 2), input=input)
    check_size(op, "target.shape", target.shape, input.shape, "input.shape")
    check_classes(op, target, input.shape[-1] if input.dim() else 1, least=-1)
    if input.dim() == 2:
        return _ops.multilabel_margin_loss(input, target, reduction, contract)
    loss = _ops.multilabel_margin_loss(input.reshape(1, -1), target.reshape(1, -1), reduction, contract)
    return loss.reshape(())


@public("losses")
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Binary cross entropy of `sigmoid(input)` and `target`, the mean over classes: `(..., C) -> (...)`, reduced.

    Raises:
        ShapeError: if the shapes differ, `weight` does not broadcast to them, or for another `reduction`.
    """
    op = "multilabel_soft_margin_loss"
    input, target = operands(op, input=input, target=target)
    return _ops.multilabel_soft_margin_loss(input, target, weight, reduction, contract)
