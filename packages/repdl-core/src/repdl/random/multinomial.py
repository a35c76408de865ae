"""multinomial: categories by weight."""

from __future__ import annotations

import torch

from repdl.contract import ANY_CONTRACT
from repdl.dtypes.rounding import FORMATS
from repdl.errors import DTypeError, check, check_bool, check_range, check_tensor
from repdl.generators import draws
from repdl.generators.draws import Options, Tensor
from repdl.generators.generator import Generator, chosen
from repdl.ops.pointwise.cast import cast
from repdl.registry import functions as ops
from repdl.registry.arguments import as_int
from repdl.tensors.values import assert_on_device

__all__ = ["multinomial"]

_MOST_CATEGORIES = 2**24
_LOW = 0xFFFFFFFF


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices of categories, as likely as their weights: `(C) -> (S)` or `(M, C) -> (M, S)`, int64.

    The weights, float32, float64 or 16-bit floats, need not sum to 1. Without replacement no index comes twice in a
    row; where too few have a weight above 0, those that have none come after them, in ascending order.

    Raises:
        ShapeError, DTypeError, OutOfRangeError: for a weight that is negative, infinite or NaN, a row whose weights
            are all 0, more samples without replacement than categories, no sample or no category; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html
    """
    name = "multinomial"
    check_tensor(name, input=input)
    check_bool(name, replacement=replacement)
    num_samples = as_int(name, "num_samples", num_samples)
    if input.dtype not in FORMATS:
        raise DTypeError(f"{name}: input.dtype is {input.dtype}, expected float32, float64, bfloat16 or float16")
    check(name, input.dim() in (1, 2), lambda: f"input.dim() is {input.dim()}, expected 1 or 2")
    categories = input.shape[-1]
    check_range(name, num_samples > 0, lambda: f"num_samples is {num_samples}, expected more than 0")
    check(
        name,
        0 < categories <= _MOST_CATEGORIES,
        lambda: f"input.shape[-1] is {categories}, expected 1 to 2**24 categories",
    )
    check(
        name,
        replacement or num_samples <= categories,
        lambda: f"num_samples is {num_samples}, expected {categories} (= input.shape[-1]) at most without replacement",
    )
    asked = Options(name, None, torch.int64, out=out, device=None if out is None else out.device)
    asked.device = input.device
    chosen(name, generator)
    weights = cast(input.detach(), torch.float32) if input.dtype.itemsize == 2 else input.detach()
    rows = weights.reshape(-1, categories).contiguous()
    pattern = rows.view(torch.int32 if rows.dtype is torch.float32 else torch.int64)
    pattern = torch.where(pattern == torch.iinfo(pattern.dtype).min, 0, pattern)  # the negative zero is zero
    _check_weights(name, input, pattern)
    found = _with(pattern, num_samples, generator) if replacement else _without(rows, pattern, num_samples, generator)
    return asked.finished(found.reshape(*input.shape[:-1], num_samples))


def _check_weights(name: str, input: Tensor, pattern: Tensor) -> None:
    infinity = FORMATS[torch.float32 if pattern.dtype is torch.int32 else torch.float64].infinity
    wrong, some = (pattern < 0) | (pattern >= infinity), (pattern > 0).any(dim=1)
    if assert_on_device(name, wrong, lambda w: ~w, "a weight is negative or not finite"):
        assert_on_device(name, some, lambda s: s, "a row has no weight above 0")
        return
    if bool(wrong.any()):
        where = wrong.reshape(input.shape).nonzero()[0].tolist()
        weight = input[tuple(where)].item()
        check_range(name, False, f"input{where} is {weight}, expected weights that are finite and not negative")
    if not bool(some.all()):
        row = int((~some).nonzero()[0])
        check_range(name, False, f"row {row} of the weights has none above 0, expected one or more")


def _with(pattern: Tensor, samples: int, generator: Generator | None) -> Tensor:
    """A uniform number below the sum of a row's integer weights, looked up among their partial sums."""
    partial = _integer_weights(pattern).cumsum(dim=1)
    upper, lower = draws.words("multinomial", (len(pattern), samples), pattern.device, generator, 2)
    number = _product_high(upper.to(torch.int64) & _LOW, lower.to(torch.int64) & _LOW, partial[:, -1:])
    return torch.searchsorted(partial, number, right=True)


def _integer_weights(pattern: Tensor) -> Tensor:
    """floor(weight * 2**(b - e)): 2**e above the row's largest weight, b = 62 less the bits of the number of them."""
    fraction = 23 if pattern.dtype is torch.int32 else 52
    pattern = pattern.to(torch.int64)
    field = (pattern >> fraction).clamp(min=1)
    significand = pattern & (1 << fraction) - 1 | torch.where(pattern >> fraction > 0, 1 << fraction, 0)
    # The largest is below 2**(fraction + 1) in units of its own last place, also where it is subnormal.
    bits = 62 - pattern.shape[1].bit_length()
    shift = field - field.max(dim=1, keepdim=True).values + (bits - fraction - 1)
    return torch.where(shift >= 0, significand << shift.clamp(min=0), significand >> (-shift).clamp(0, 63))


def _product_high(upper: Tensor, lower: Tensor, total: Tensor) -> Tensor:
    """The high 64 bits of (upper * 2**32 + lower) * total, for a total below 2**62; products of 32 bits wrap."""
    high, low = total >> 32, total & _LOW
    first, second = lower * low, upper * low
    middle = (first >> 32 & _LOW) + lower * high + (second & _LOW)
    return upper * high + (second >> 32 & _LOW) + (middle >> 32)


def _without(rows: Tensor, pattern: Tensor, samples: int, generator: Generator | None) -> Tensor:
    """The categories with the smallest exponential / weight: the order in which clocks of those rates first ring."""
    like = draws.blank(rows.shape, rows.dtype, rows.device)
    clocks = draws.draw("multinomial", "exponential", like, generator, 1.0)
    times = ops.div(clocks, rows, ANY_CONTRACT).view(pattern.dtype)  # patterns of numbers above 0 sort as they do
    never = torch.iinfo(pattern.dtype).max
    return torch.where(pattern > 0, times, never).sort(dim=1, stable=True).indices[:, :samples]
