"""Losses of elements: formulas over registered ops, reduced by the contract's sum."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl import registry
from repdl.autocast import FLOAT32
from repdl.contract import Contract, contract_name
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import UnsupportedError, as_float, check, check_bool, check_tensor, check_tensor_or_none
from repdl.layout import broadcast_shapes
from repdl.numbers import is_zero
from repdl.ops._loss import REDUCTIONS, check_deprecated, check_reduction
from repdl.ops._number import constant
from repdl.ops._pointwise import below, broadcast_shape
from repdl.registry import composite
from repdl.replay import replayed
from repdl.rows import ROWS, Row, Tried, item

__all__ = ["binary_cross_entropy_with_logits", "huber_loss", "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss"]

Tensor = torch.Tensor
_ops = registry.functions


def _number(value: float, like: Tensor) -> Tensor:
    return constant(value, like.dtype, like.device)


def _reduced(losses: Tensor, reduction: str, contract: str) -> Tensor:
    """All losses, their sum, that divided by their number, or, batchmean, by that of the rows."""
    if reduction == "none":
        return losses
    total = _ops.sum(losses, list(range(losses.dim())), False, contract)
    if reduction == "sum" or (reduction == "batchmean" and losses.dim() == 0):
        return total  # type: ignore[no-any-return]
    count = losses.shape[0] if reduction == "batchmean" else losses.numel()
    return _ops.div(total, _number(count, total), contract)  # type: ignore[no-any-return]


def _loss(
    schema: str,
    formula: Callable[..., Tensor],
    calls: str,
    dtypes: Dtypes = Dtypes(),  # noqa: B008, it is frozen
    reductions: tuple[str, ...] = REDUCTIONS,
    *,
    order: str,
    tried: Sequence[tuple[Any, ...]] = ((),),
    probabilities: bool = False,
) -> Callable[..., Any]:
    """Register `name(Tensor input, Tensor target, ..., str reduction, str contract)`, reduced after the formula.

    Args:
        schema, calls, dtypes: as of `registry.composite`.
        order: the contract text: the formula, with x = input and y = target.
        tried: the values of the options that cases have, several times.
        probabilities: whether targets are not negative.
    """
    name, _, rest = schema.partition("(")

    def check_arguments(*args: Any) -> None:
        tensors = {"input": args[0], "target": args[1]}
        tensors |= {f"argument {i}": a for i, a in enumerate(args) if i > 1 and isinstance(a, Tensor)}
        broadcast_shape(name, **tensors)
        reduction = args[-2]
        check(
            name,
            reduction in reductions,
            lambda: f"reduction is {reduction!r}, expected one of {', '.join(reductions)}",
        )

    def run(*args: Any) -> Tensor:
        *operands, reduction, contract = args
        return _reduced(formula(*operands, contract), reduction, contract)

    listed = ", ".join(part.split()[-1] for part in rest.partition(")")[0].split(", "))
    ROWS[name] = Row(
        item(f"{name}({listed}) -> loss", order), Tried("loss", {"tried": tried, "probabilities": probabilities})
    )
    return composite(
        name,
        f"({rest}",
        run,
        calls=(*calls.split(), "sum", "div"),
        check=check_arguments,
        dtypes=dtypes,
        autocast=FLOAT32,
        family="losses",
    )


def _huber(input: Tensor, target: Tensor, delta: float, c: str) -> Tensor:
    z, d = _ops.abs(_ops.sub(input, target, c)), _number(delta, input)
    near = _ops.mul(_ops.mul(_number(0.5, z), z, c), z, c)
    far = _ops.mul(d, _ops.sub(z, _ops.mul(_number(0.5, z), d, c), c), c)
    return _ops.where(below(z, d, c), near, far, c)  # type: ignore[no-any-return]


def _smooth_l1(input: Tensor, target: Tensor, beta: float, c: str) -> Tensor:
    z, b, half = _ops.abs(_ops.sub(input, target, c)), _number(beta, input), _number(0.5, input)
    near = _ops.div(_ops.mul(_ops.mul(half, z, c), z, c), b, c)
    return _ops.where(below(z, b, c), near, _ops.sub(z, _ops.mul(half, b, c), c), c)  # type: ignore[no-any-return]


def _bce_with_logits(input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, c: str) -> Tensor:
    one, zero = _number(1.0, input), _number(0.0, input)
    curve = _ops.log1p(_ops.exp(_ops.neg(_ops.abs(input))))
    log_sigmoid = _ops.sub(_ops.minimum(input, zero, c), curve, c)
    if pos_weight is not None:
        factor = _ops.add(_ops.mul(_ops.sub(pos_weight, one, c), target, c), one, c)
        log_sigmoid = _ops.mul(factor, log_sigmoid, c)
    losses = _ops.sub(_ops.mul(_ops.sub(one, target, c), input, c), log_sigmoid, c)
    return losses if weight is None else _ops.mul(losses, weight, c)  # type: ignore[no-any-return]


def _kl_div(input: Tensor, target: Tensor, log_target: bool, c: str) -> Tensor:
    if log_target:
        return _ops.mul(_ops.exp(target), _ops.sub(target, input, c), c)  # type: ignore[no-any-return]
    # 0 log 0 is 0, and its derivative finite: log 1 in its place.
    # As torch's comparison, but for subnormals that it may take for 0; the sign of NaN is 0 too.
    values = target.detach()
    zero = (_ops.sign(values) == 0) & (values == values)
    positive = _ops.where(zero, _number(1.0, target), target, c)
    entropy = _ops.mul(target, _ops.log(positive), c)
    return _ops.sub(entropy, _ops.mul(target, input, c), c)  # type: ignore[no-any-return]


_mse_loss: Callable[..., Tensor] = _loss(
    "mse_loss(Tensor input, Tensor target, str reduction, str contract) -> Tensor",
    lambda input, target, c: _ops.square(_ops.sub(input, target, c)),
    "square sub",
    order="`square(x - y)`",
)
_l1_loss: Callable[..., Tensor] = _loss(
    "l1_loss(Tensor input, Tensor target, str reduction, str contract) -> Tensor",
    lambda input, target, c: _ops.abs(_ops.sub(input, target, c)),
    "abs sub",
    order="`abs(x - y)`",
)
_huber_loss: Callable[..., Tensor] = _loss(
    "huber_loss(Tensor input, Tensor target, float delta, str reduction, str contract) -> Tensor",
    _huber,
    "abs sub mul where sign",
    order="z = `abs(x - y)`; `(0.5 * z) * z` where z < delta, else `delta * (z - 0.5 * delta)`",
    tried=[(1.0,), (0.3,)],
)
_smooth_l1_loss: Callable[..., Tensor] = _loss(
    "smooth_l1_loss(Tensor input, Tensor target, float beta, str reduction, str contract) -> Tensor",
    _smooth_l1,
    "abs sub mul div where sign",
    order="z = `abs(x - y)`; `((0.5 * z) * z) / beta` where z < beta, else `z - 0.5 * beta`",
    tried=[(1.0,), (0.3,)],
)
_bce_op: Callable[..., Tensor] = _loss(
    "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight, Tensor? pos_weight, str reduction, "
    "str contract) -> Tensor",
    _bce_with_logits,
    "log1p exp neg abs sub minimum add mul",
    Dtypes(SINGLE),
    order="s = `minimum(x, 0) - log1p(exp(-abs(x)))`; with pos_weight p: s = `((p - 1) * y + 1) * s`; the loss is "
    "`(1 - y) * x - s`, with weight w `((1 - y) * x - s) * w`",
    tried=[(None, None)],
    probabilities=True,
)
_kl_div_op: Callable[..., Tensor] = _loss(
    "kl_div(Tensor input, Tensor target, bool log_target, str reduction, str contract) -> Tensor",
    _kl_div,
    "exp log mul sub where sign",
    Dtypes(SINGLE),
    (*REDUCTIONS, "batchmean"),
    order="`y * log(u) - y * x`, u = 1 where y = 0, else y; with log_target `exp(y) * (y - x)`",
    tried=[(False,), (True,)],
    probabilities=True,
)


def _sized(op: str, input: Tensor, target: Tensor) -> None:
    """torch's warning, where a target of another size broadcasts."""
    check_tensor(op, input=input, target=target)
    if input.shape != target.shape:
        warnings.warn(
            f"{op}: target.shape is {tuple(target.shape)}, input.shape {tuple(input.shape)}: they broadcast, which "
            f"is seldom meant; expected the same shape",
            stacklevel=3,
        )


def _no_weight(op: str, weight: Any) -> None:
    if weight is not None:
        raise UnsupportedError(f"{op}: weight is given, expected None; multiply the losses of reduction='none'")


@replayed
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """`(input - target) ** 2`, broadcast, any floating-point dtype; reduced to its mean, sum, or not.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
        UnsupportedError: for `weight`, and for what torch deprecates.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mse_loss.html
    """
    name = contract_name(contract)
    _sized("mse_loss", input, target)
    check_deprecated("mse_loss", size_average, reduce)
    _no_weight("mse_loss", weight)
    return _mse_loss(input, target, reduction, name)  # type: ignore[no-any-return]


@replayed
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """`|input - target|`, broadcast, any floating-point dtype; reduced to its mean, sum, or not.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
        UnsupportedError: for `weight`, and for what torch deprecates.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.l1_loss.html
    """
    name = contract_name(contract)
    _sized("l1_loss", input, target)
    check_deprecated("l1_loss", size_average, reduce)
    _no_weight("l1_loss", weight)
    return _l1_loss(input, target, reduction, name)  # type: ignore[no-any-return]


@replayed
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """`0.5 z ** 2` where z = `|input - target|` is below `delta`, else `delta (z - 0.5 delta)`; broadcast, reduced.

    Raises:
        ShapeError: if the shapes do not broadcast, for another `reduction`, or a `delta` that is not above 0.
        UnsupportedError: for `weight`.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.huber_loss.html
    """
    name = contract_name(contract)
    _sized("huber_loss", input, target)
    _no_weight("huber_loss", weight)
    delta = as_float("huber_loss", "delta", delta)
    check("huber_loss", delta > 0, lambda: f"delta is {delta}, expected a number above 0")
    return _huber_loss(input, target, delta, reduction, name)  # type: ignore[no-any-return]


@replayed
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """`0.5 z ** 2 / beta` where z = `|input - target|` is below `beta`, else `z - 0.5 beta`; broadcast, reduced.

    With `beta` = 0 it is `l1_loss`.

    Raises:
        ShapeError: if the shapes do not broadcast, for another `reduction`, or a `beta` below 0.
        UnsupportedError: for what torch deprecates.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.smooth_l1_loss.html
    """
    name = contract_name(contract)
    _sized("smooth_l1_loss", input, target)
    check_deprecated("smooth_l1_loss", size_average, reduce)
    beta = as_float("smooth_l1_loss", "beta", beta)
    check("smooth_l1_loss", beta >= 0, lambda: f"beta is {beta}, expected a number that is not below 0")
    if is_zero(beta):
        return _l1_loss(input, target, reduction, name)  # type: ignore[no-any-return]
    return _smooth_l1_loss(input, target, beta, reduction, name)  # type: ignore[no-any-return]


@replayed
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """Binary cross entropy of `sigmoid(input)` and `target`, any shape; weights broadcast to it.

    Raises:
        ShapeError: if `target` has another shape than `input`, a weight does not broadcast to it, or for
            another `reduction`.
        DTypeError, UnsupportedError: for float64, and for what torch deprecates.

    Contract: losses v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy_with_logits.html
    """
    op, name = "binary_cross_entropy_with_logits", contract_name(contract)
    check_tensor(op, input=input, target=target)
    check_tensor_or_none(op, weight=weight, pos_weight=pos_weight)
    check_deprecated(op, size_average, reduce)
    check_reduction(op, reduction)
    for what, tensor in (("target", target), ("weight", weight), ("pos_weight", pos_weight)):
        fits = tensor is None or tensor.shape == input.shape
        if tensor is not None and not fits and what != "target":
            fits = broadcast_shapes(input.shape, tensor.shape) == input.shape
        check(op, fits, lambda: f"{what}.shape is {tuple(tensor.shape)}, expected {tuple(input.shape)} (= input.shape)")  # type: ignore[union-attr]
    return _bce_op(input, target, weight, pos_weight, reduction, name)  # type: ignore[no-any-return]


@replayed
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """Kullback-Leibler divergence of log-probabilities `input` from `target`, elementwise, broadcast; reduced.

    `target` holds probabilities or, with `log_target`, their logarithms.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
        DTypeError, UnsupportedError: for float64, and for what torch deprecates.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.kl_div.html
    """
    name = contract_name(contract)
    check_tensor("kl_div", input=input, target=target)
    check_bool("kl_div", log_target=log_target)
    check_deprecated("kl_div", size_average, reduce)
    return _kl_div_op(input, target, log_target, reduction, name)  # type: ignore[no-any-return]
