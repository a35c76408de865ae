"""Activations with bounds or thresholds: hardtanh, relu6, threshold, hardshrink, softshrink, prelu, rrelu."""

from __future__ import annotations

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.dtypes.rounding import add, mul
from repdl.errors import check, check_dtype, check_size
from repdl.generators.draws import bounds, draw, writable
from repdl.generators.generator import Generator, chosen
from repdl.ops.activation.activation import leaky_relu
from repdl.ops.common import applied, constant
from repdl.ops.declare import Slope, f, pointwise, public
from repdl.registry import LOWER, as_float, computes, functions as _ops

__all__ = ["hardshrink", "hardtanh", "prelu", "relu6", "rrelu", "softshrink", "threshold"]


def _positive(input: Tensor) -> Tensor:
    """As x > 0, but for subnormals that torch may take for 0."""
    return _ops.sign(input.detach()) > 0


pointwise(
    "hardtanh(Tensor input, float min_val, float max_val) -> Tensor",
    Slope("+0 if x <= min_val or x >= max_val, else g"),
    family="activation",
    order="min_val if x < min_val, else max_val if x > max_val, else x",
    cases=[(-1.0, 1.0), (0.0, 6.0)],
)
pointwise(
    "threshold(Tensor input, float threshold, float value) -> Tensor",
    {"input": lambda g, x, threshold: f.threshold_backward(g, x, threshold)},
    family="activation",
    order="value if x <= threshold, else x",
    cases=[(0.0, 0.0), (0.1, -3.0)],
)
pointwise(
    "threshold_backward(Tensor grad, Tensor input, float threshold) -> Tensor",
    {"grad": lambda h, x, threshold: f.threshold_backward(h, x, threshold)},
    family="activation",
    same_shape=("grad", "input"),
    order="+0 if x <= threshold, else g",
    cases=[(0.0,), (0.1,)],
)
pointwise(
    "hardshrink(Tensor input, float lambd) -> Tensor",
    {"input": lambda g, x, lambd: f.hardshrink_backward(g, x, lambd)},
    family="activation",
    order="+0 if -lambd <= x <= lambd, else x",
    cases=[(0.5,), (-0.1,)],
)
pointwise(
    "hardshrink_backward(Tensor grad, Tensor input, float lambd) -> Tensor",
    {"grad": lambda h, x, lambd: f.hardshrink_backward(h, x, lambd)},
    family="activation",
    same_shape=("grad", "input"),
    order="+0 if -lambd <= x <= lambd, else g",
    cases=[(0.5,), (0.0,)],
)
pointwise(
    "softshrink(Tensor input, float lambd) -> Tensor",
    {"input": lambda g, x, lambd: f.hardshrink_backward(g, x, lambd)},
    family="activation",
    order="`x - lambd` if x > lambd, `x + lambd` if x < -lambd, else `x * 0`",
    cases=[(0.5,), (0.0,)],
)
pointwise(
    "prelu(Tensor input, Tensor weight, str contract) -> Tensor",
    {
        "input": lambda g, x, weight: f.where(x > 0, g, g * weight),
        "weight": lambda g, x: f.where(x > 0, 0, g * x),
    },
    family="activation",
    autocast=LOWER,
    order="x if x > 0, else `weight * x`",
)


@public("activation")
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, *, contract: ContractLike = None
) -> Tensor:
    """`input`, or the bound that it is beyond; any shape and floating-point dtype. With `inplace`, into `input`.

    Raises:
        ShapeError: if `min_val` is above `max_val`.
    """
    low, high = as_float("hardtanh", "min_val", min_val), as_float("hardtanh", "max_val", max_val)
    check("hardtanh", not low > high, lambda: f"min_val is {low}, expected at most max_val = {high}")
    return applied("hardtanh", lambda x: _ops.hardtanh(x, low, high), input, inplace)


@public("activation")
def relu6(input: Tensor, inplace: bool = False, *, contract: ContractLike = None) -> Tensor:
    """`min(max(input, 0), 6)`, any shape and floating-point dtype. With `inplace`, into `input`."""
    check_dtype("relu6", ALL, input=input)
    return applied("relu6", lambda x: _ops.hardtanh(x, 0.0, 6.0), input, inplace)


@computes("threshold")
@public("activation")
def threshold(
    input: Tensor, threshold: float, value: float, inplace: bool = False, *, contract: ContractLike = None
) -> Tensor:
    """`input` where it is above `threshold`, else `value`; any shape and floating-point dtype; NaN stays.

    With `inplace`, into `input`.
    """
    numbers = as_float("threshold", "threshold", threshold), as_float("threshold", "value", value)
    return applied("threshold", lambda x: _ops.threshold(x, *numbers), input, inplace)


@public("activation")
def hardshrink(input: Tensor, lambd: float = 0.5, *, contract: ContractLike = None) -> Tensor:
    """0 where `-lambd <= input <= lambd`, else `input`; any shape and floating-point dtype."""
    return _ops.hardshrink(input, as_float("hardshrink", "lambd", lambd))


@public("activation")
def softshrink(input: Tensor, lambd: float = 0.5, *, contract: ContractLike = None) -> Tensor:
    """`input` by `lambd` nearer to 0, where it is farther than that, else 0; any shape and floating-point dtype.

    Raises:
        ShapeError: if `lambd` is below 0.
    """
    bound = as_float("softshrink", "lambd", lambd)
    check("softshrink", bound >= 0, lambda: f"lambd is {bound}, expected 0 or more")
    return _ops.softshrink(input, bound)


@public("activation")
def prelu(input: Tensor, weight: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`input` where it is above 0, else `weight * input`; any shape and floating-point dtype.

    Args:
        weight: (1), or (C) with `input` (N, C, ...).

    Raises:
        ShapeError: if `weight` is not one number a channel.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract, or not the same.
    """
    check("prelu", weight.dim() <= 1, lambda: f"weight.dim() is {weight.dim()}, expected 0 or 1")
    if weight.numel() != 1:
        check("prelu", input.dim() > 0, lambda: f"input is 0-D with {weight.numel()} weights, expected 1")
        channels = input.shape[1] if input.dim() > 1 else 1
        check_size("prelu", "weight.numel()", weight.numel(), channels, "the channels, input.shape[1], or 1")
    if weight.dim() and input.dim() != 1:
        weight = weight.view(-1, *[1] * (input.dim() - 2)) if input.dim() else weight.view(())
    return _ops.prelu(input, weight, contract)


@public("activation", uncached="draws from a generator")
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`input` where it is above 0, else times a slope; any shape and floating-point dtype. With `inplace`, into it.

    In training the slopes are drawn, uniform in [lower, upper), one an element, those of positive ones too;
    else all are `(lower + upper) / 2`.

    Raises:
        ShapeError: if `lower` is above `upper`; nothing is drawn.
    """
    op = "rrelu"
    low, high = as_float(op, "lower", lower), as_float(op, "upper", upper)
    check(op, low <= high, lambda: f"lower is {low}, expected at most upper = {high}")
    chosen(op, generator)
    if not training:
        return leaky_relu(input, mul(add(low, high), 0.5), inplace, contract=contract)
    check_dtype(op, ALL, input=input)
    if inplace:
        writable(op, input, "input")
    slopes = draw(op, "uniform", input.detach(), generator, *bounds(op, low, high, input.dtype))
    factors = _ops.where(_positive(input), constant(1.0, input.dtype, input.device), slopes, contract)
    return applied(op, lambda x: _ops.mul(x, factors, contract), input, inplace)
