"""Likelihoods of elements: binary_cross_entropy, gaussian_nll_loss, poisson_nll_loss."""

from __future__ import annotations

from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check, check_broadcasts_to, check_range, check_size
from repdl.ops.common import constant, less_than
from repdl.ops.declare import Expression, Number, Written, choose, f, named, pointwise, public
from repdl.ops.losses._element_loss import element_loss, operands, scalar
from repdl.ops.losses._loss import check_reduction
from repdl.registry import FLOAT32_ON_CUDA, as_float, functions as _ops
from repdl.tensors.values import assert_on_device

__all__ = ["binary_cross_entropy", "gaussian_nll_loss", "poisson_nll_loss"]

_TWO_PI = 6.283185307179586


def _check_probabilities(input: Tensor) -> None:
    if input.numel() == 0 or assert_on_device(
        "binary_cross_entropy", input, lambda p: (p >= 0) & (p <= 1), "a number of input is no probability, 0 to 1"
    ):
        return
    low, high = input.aminmax()  # NaN where one is
    if low >= 0 and high <= 1:
        return
    where = tuple(int(i) for i in (~((input >= 0) & (input <= 1))).nonzero()[0])
    check_range(
        "binary_cross_entropy",
        False,
        lambda: (
            f"input{list(where)} is {float(input[where])}, expected a probability, 0 to 1; apply a sigmoid, or use "
            f"binary_cross_entropy_with_logits"
        ),
    )


def _to_probability(g: Expression, x: Expression, y: Expression) -> Expression:
    spread = f.maximum((1 - x) * x, 1e-12)
    return (g * (x - y)) / spread


def _to_target(g: Expression, x: Expression) -> Expression:
    no = f.maximum(f.log1p(-x), -100)
    yes = f.maximum(f.log(x), -100)
    return g * (no - yes)


pointwise(
    "binary_cross_entropy_elements(Tensor input, Tensor target, str contract) -> Tensor",
    {"input": _to_probability, "target": _to_target},
    letters={"y": "target"},
    family="losses",
    check_values=_check_probabilities,
    order="`(y - 1) * maximum(log1p(-x), -100) - y * maximum(log(x), -100)`, x from 0 to 1",
    cases=(),
)


def _check_variance(var: Tensor) -> None:
    if assert_on_device("gaussian_nll_loss", var, lambda v: ~(v < 0), "a number of var is below 0"):
        return
    if var.numel() and (var < 0).any():
        where = tuple(int(i) for i in (var < 0).nonzero()[0])
        check_range(
            "gaussian_nll_loss", False, lambda: f"var{list(where)} is {float(var[where])}, expected none below 0"
        )


pointwise(
    "nll_variance(Tensor var, float least) -> Tensor",
    {"var": Written(lambda g: g, "g, for a variance below least too")},
    family="losses",
    is_slope=lambda var, least: bool((var >= least).all()),
    check_values=_check_variance,
    order="least if var < least, else var; var is not below 0",
    cases=(),
)


def _binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, c: str) -> Tensor:
    losses = _ops.binary_cross_entropy_elements(input, target, c)
    return losses if weight is None else _ops.mul(losses, weight, c)


def _poisson(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, c: str) -> Tensor:
    if log_input:
        losses = _ops.sub(_ops.exp(input), _ops.mul(target, input, c), c)
    else:
        losses = _ops.sub(input, _ops.mul(target, _ops.log(_ops.add(input, scalar(eps, input), c)), c), c)
    if not full:
        return losses
    one, zero = scalar(1.0, target), scalar(0.0, target)
    above = less_than(one, target, c)
    y = _ops.where(above, target, one, c)  # logarithms of the others would make their derivatives NaN
    stirling = _ops.sub(_ops.mul(y, _ops.log(y), c), y, c)
    half = _ops.mul(scalar(0.5, y), _ops.log(_ops.mul(scalar(_TWO_PI, y), y, c)), c)
    return _ops.add(losses, _ops.where(above, _ops.add(stirling, half, c), zero, c), c)


def _gaussian(x: Expression, y: Expression, var: Expression, full: Expression, eps: Expression) -> Expression:
    v = named("v", f.nll_variance(var, eps))
    squares = f.square(x - y) / v
    losses = 0.5 * (f.log(v) + squares)
    return choose(full, {False: losses, True: losses + Number(0.9189385332046728, "log(2 pi) / 2")})


element_loss(
    "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight, str reduction, str contract) -> Tensor",
    Written(_binary_cross_entropy, "`binary_cross_entropy_elements(x, y)`, with weight w times w"),
    calls="binary_cross_entropy_elements mul",
    cases=[(None,)],
    operands=("unit", "size"),
)
element_loss(
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, str reduction, str contract) "
    "-> Tensor",
    Written(
        _poisson,
        "with log_input `exp(x) - y * x`, else `x - y * log(x + eps)`; with full, where y > 1, plus "
        "`(y * log(y) - y) + 0.5 * log(2 pi * y)`, else plus +0",
    ),
    calls="exp log mul sub add where sign",
    cases=[(True, False, 1e-8), (False, True, 1e-8), (True, True, 1e-8)],
    operands=("any", "size"),
)
element_loss(
    "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full, float eps, str reduction, str contract) "
    "-> Tensor",
    _gaussian,
    cases=[(False, 1e-6), (True, 0.25)],
    operands=("any", "any", "variance"),
    is_slope=lambda input, target, var, full, eps, *_: bool((var >= eps).all()),
    autocast=FLOAT32_ON_CUDA,
)


@public("losses")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Binary cross entropy of probabilities `input` and `target`, any shape; `weight` broadcasts to it.

    Logarithms are -100 at least, as torch's.

    Raises:
        ShapeError: if `target` has another shape than `input`, `weight` does not broadcast to it, or for another
            `reduction`.
        OutOfRangeError: if an element of `input` is not from 0 to 1.
    """
    op = "binary_cross_entropy"
    check_reduction(op, reduction)
    check_size(op, "target.shape", target.shape, input.shape, "input.shape")
    check_broadcasts_to(op, input.shape, weight=weight)
    return _ops.binary_cross_entropy(input, target, weight, reduction, contract)


@public("losses")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Negative log likelihood of counts `target` from a Poisson distribution of the rate `input`, broadcast, reduced.

    The rate is `exp(input)` with `log_input`. With `full` Stirling's term of the counts is added.

    Raises:
        ShapeError: if the shapes do not broadcast, or for another `reduction`.
    """
    op = "poisson_nll_loss"
    input, target = operands(op, input=input, target=target)
    return _ops.poisson_nll_loss(input, target, log_input, full, as_float(op, "eps", eps), reduction, contract)


@public("losses")
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Negative log likelihood of `target` from a normal distribution of mean `input` and variance `var`, reduced.

    `var` is a number, or of the shape of `input`, where the last size may be left out or one be 1. An element below
    `eps` counts as `eps`, with a derivative as if it did not. With `full` the constant term is added.

    Raises:
        ShapeError: if the shapes do not broadcast or `var` has another one, or for another `reduction`.
        OutOfRangeError: if an element of `var` is below 0.
    """
    op = "gaussian_nll_loss"
    is_number = not isinstance(var, Tensor)
    if isinstance(var, Tensor):
        input, target, var = operands(op, input=input, target=target, var=var)
    else:
        input, target = operands(op, input=input, target=target)
        var = constant(as_float(op, "var", var), input.dtype, input.device)
    if not is_number and var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        else:
            shape, expected = tuple(var.shape), tuple(input.shape)
            others = [v for n, v in zip(expected, shape) if n != v]
            check(
                op,
                len(shape) == len(expected) and others == [1],
                lambda: (
                    f"var.shape is {shape}, expected {expected} (= input.shape), without its last size, or with 1 for "
                    f"one of them"
                ),
            )
    return _ops.gaussian_nll_loss(input, target, var, full, as_float(op, "eps", eps), reduction, contract)
