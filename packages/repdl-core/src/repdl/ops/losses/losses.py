"""Losses of elements: formulas over registered ops, reduced by the contract's sum."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes.rounding import is_zero
from repdl.errors import UnsupportedError, check
from repdl.ops.declare import Expression, Slope, Written, choose, f, named, pointwise, public
from repdl.ops.losses._element_loss import check_sized, element_loss, scalar
from repdl.ops.losses._loss import REDUCTIONS, check_reduction
from repdl.registry import as_float, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = ["binary_cross_entropy_with_logits", "huber_loss", "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss"]


def _bce_with_logits(input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, c: str) -> Tensor:
    if pos_weight is None and input.shape == target.shape:
        losses = _ops.binary_cross_entropy_with_logits_elements(input, target)
    else:
        one, log_sigmoid = scalar(1.0, input), _ops.logsigmoid(input)
        if pos_weight is not None:
            factor = _ops.add(_ops.mul(_ops.sub(pos_weight, one, c), target, c), one, c)
            log_sigmoid = _ops.mul(factor, log_sigmoid, c)
        losses = _ops.sub(_ops.mul(_ops.sub(one, target, c), input, c), log_sigmoid, c)
    return losses if weight is None else _ops.mul(losses, weight, c)


def _kl_div(x: Expression, y: Expression, log_target: Expression) -> Expression:
    u = named("u", f.where(y == 0, 1, y))  # 0 log 0 is 0, and its derivative finite
    return choose(log_target, {False: y * f.log(u) - y * x, True: f.exp(y) * (y - x)})


pointwise(
    "huber(Tensor input, float delta) -> Tensor",
    Slope(
        "`g * x` if abs(x) < delta, else `(g * delta) * sign(x)`, NaN for a NaN",
        lambda h, g, x, delta: f.where(f.abs(x) < delta, h * g, 0),
    ),
    family="losses",
    order="`(0.5 * x) * x` if abs(x) < delta, else `delta * (abs(x) - 0.5 * delta)`",
    cases=[(1.0,), (0.3,), (1e-50,)],
)
pointwise(
    "smooth_l1(Tensor input, float beta) -> Tensor",
    Slope(
        "`(g / beta) * x` if abs(x) < beta, else `g * sign(x)`, NaN for a NaN",
        lambda h, g, x, beta: f.where(f.abs(x) < beta, (h * g) / beta, 0),
    ),
    family="losses",
    order="`((0.5 * x) * x) / beta` if abs(x) < beta, else `abs(x) - 0.5 * beta`",
    cases=[(1.0,), (0.3,), (1e-50,)],
)
element_loss(
    "mse_loss(Tensor input, Tensor target, str reduction, str contract) -> Tensor", lambda x, y: f.square(x - y)
)
element_loss("l1_loss(Tensor input, Tensor target, str reduction, str contract) -> Tensor", lambda x, y: f.abs(x - y))
element_loss(
    "huber_loss(Tensor input, Tensor target, float delta, str reduction, str contract) -> Tensor",
    lambda x, y, delta: f.huber(x - y, delta),
    cases=[(1.0,), (0.3,)],
)
element_loss(
    "smooth_l1_loss(Tensor input, Tensor target, float beta, str reduction, str contract) -> Tensor",
    lambda x, y, beta: f.smooth_l1(x - y, beta),
    cases=[(1.0,), (0.3,)],
)
_WITH_LOGITS = "binary_cross_entropy_with_logits_elements"
pointwise(
    f"{_WITH_LOGITS}(Tensor input, Tensor target) -> Tensor",
    {
        "input": lambda g, x, y: f.binary_cross_entropy_with_logits_elements_backward(g, x, y),
        "target": lambda g, x: -(g * x),
    },
    letters={"x": "input", "y": "target"},
    same_shape=("input", "target"),
    family="losses",
    order="`(1 - y) * x - logsigmoid(x)`",
    cases=(),
)
pointwise(
    f"{_WITH_LOGITS}_backward(Tensor grad, Tensor input, Tensor target) -> Tensor",
    {
        "grad": lambda h, x, y: f.binary_cross_entropy_with_logits_elements_backward(h, x, y),
        "input": lambda h, g, x: f.sigmoid_backward(h * g, f.sigmoid(-x)),
        "target": lambda h, g: -(h * g),
    },
    letters={"x": "input", "y": "target"},
    same_shape=("input", "grad", "target"),
    family="losses",
    order="`g * (1 - y) - g * sigmoid(-x)`",
    cases=(),
)
element_loss(
    "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight, Tensor? pos_weight, str reduction, "
    "str contract) -> Tensor",
    Written(
        _bce_with_logits,
        "s = `logsigmoid(x)`; with pos_weight p: s = `((p - 1) * y + 1) * s`; the loss is "
        "`(1 - y) * x - s`, with weight w `((1 - y) * x - s) * w`",
    ),
    calls=f"{_WITH_LOGITS} logsigmoid sub add mul",
    cases=[(None, None)],
    operands=("any", "size"),
)
element_loss(
    "kl_div(Tensor input, Tensor target, bool log_target, str reduction, str contract) -> Tensor",
    _kl_div,
    reductions=(*REDUCTIONS, "batchmean"),
    cases=[(False,), (True,)],
    operands=("any", "size"),
)


def _no_weight(op: str, weight: Any) -> None:
    if weight is not None:
        raise UnsupportedError(f"{op}: weight is given, expected None; multiply the losses of reduction='none'")


@public("losses")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`(input - target) ** 2`, broadcast, any floating-point dtype; reduced to its mean, sum, or not.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
        UnsupportedError: for `weight`, and for what torch deprecates.
    """
    check_sized("mse_loss", input, target)
    _no_weight("mse_loss", weight)
    return _ops.mse_loss(input, target, reduction, contract)


@public("losses")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`|input - target|`, broadcast, any floating-point dtype; reduced to its mean, sum, or not.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
        UnsupportedError: for `weight`, and for what torch deprecates.
    """
    check_sized("l1_loss", input, target)
    _no_weight("l1_loss", weight)
    return _ops.l1_loss(input, target, reduction, contract)


@public("losses")
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`0.5 z ** 2` where z = `|input - target|` is below `delta`, else `delta (z - 0.5 delta)`; broadcast, reduced.

    Raises:
        ShapeError: if the shapes do not broadcast, for another `reduction`, or a `delta` that is not above 0.
        UnsupportedError: for `weight`.
    """
    check_sized("huber_loss", input, target)
    _no_weight("huber_loss", weight)
    delta = as_float("huber_loss", "delta", delta)
    check("huber_loss", delta > 0, lambda: f"delta is {delta}, expected a number above 0")
    return _ops.huber_loss(input, target, delta, reduction, contract)


@public("losses")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`0.5 z ** 2 / beta` where z = `|input - target|` is below `beta`, else `z - 0.5 beta`; broadcast, reduced.

    With `beta` = 0 it is `l1_loss`.

    Raises:
        ShapeError: if the shapes do not broadcast, for another `reduction`, or a `beta` below 0.
    """
    check_sized("smooth_l1_loss", input, target)
    beta = as_float("smooth_l1_loss", "beta", beta)
    check("smooth_l1_loss", beta >= 0, lambda: f"beta is {beta}, expected a number that is not below 0")
    if is_zero(beta):
        return _ops.l1_loss(input, target, reduction, contract)
    return _ops.smooth_l1_loss(input, target, beta, reduction, contract)


@public("losses")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Binary cross entropy of `sigmoid(input)` and `target`, any shape; weights broadcast to it.

    Raises:
        ShapeError: if `target` has another shape than `input`, a weight does not broadcast to it, or for
            another `reduction`.
    """
    op = "binary_cross_entropy_with_logits"
    check_reduction(op, reduction)
    for what, tensor in (("target", target), ("weight", weight), ("pos_weight", pos_weight)):
        fits = tensor is None or tensor.shape == input.shape
        if tensor is not None and not fits and what != "target":
            fits = broadcast_shapes(input.shape, tensor.shape) == input.shape
        check(op, fits, lambda: f"{what}.shape is {tuple(tensor.shape)}, expected {tuple(input.shape)} (= input.shape)")  # type: ignore[union-attr]
    return _ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction, contract)


@public("losses")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Kullback-Leibler divergence of log-probabilities `input` from `target`, elementwise, broadcast; reduced.

    `target` holds probabilities or, with `log_target`, their logarithms.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
    """
    return _ops.kl_div(input, target, log_target, reduction, contract)
