"""Derivatives against differences: what autograd gives for a function, and what its values say.

A function is looked at along one direction, at steps h, h/2 and h/4 to both sides; two extrapolations (Richardson) take
the terms in h**2 and h**4 away. How far the last one moves a slope is the error of it. Where it moves it too far, there
is a kink, a jump or a pole nearby, and that output is left out. Elements and steps are numbers of few bits, so that no
sum of them is rounded, and steps are relative to each element, so that elements of all sizes count alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from repdl.testing.inputs import integers

Function = Callable[[Sequence[Tensor]], Sequence[Tensor]]


class NoPointError(Exception):
    """A function has no slope that differences can tell at a point."""


@dataclass(frozen=True)
class Precision:
    """How closely a function of a dtype is looked at.

    Args:
        bits: of the elements of a point.
        step: the largest step, relative to an element.
        noise: what rounding does to a slope, relative to the value: 32 roundings over the smallest step.
        near: how far an extrapolation may move a slope that is known, relative to itself.
        rounding: what rounding does to a derivative, relative to the sum of the sizes of its terms.
    """

    bits: int
    step: float
    noise: float
    near: float
    rounding: float


PRECISIONS = {
    torch.float32: Precision(bits=12, step=2.0**-4, noise=2.0**-13, near=2.0**-9, rounding=2.0**-11),
    torch.float64: Precision(bits=24, step=2.0**-11, noise=2.0**-35, near=2.0**-20, rounding=2.0**-24),
}

_LEAST, _MOST = 2.0**-6, 2.0**3
"""The sizes that elements of a point have."""

_DOMAINS: Sequence[Callable[[Tensor], Tensor]] = (lambda x: x, torch.abs, lambda x: x.abs() / 8, lambda x: x.abs() + 1)
"""All numbers, positive ones, those of (0, 1), those beyond 1."""


def points(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Points near tensors, where functions are likely to be smooth: then others, as some functions take positive
    numbers, probabilities, or numbers beyond 1 only."""
    for domain in _DOMAINS:
        yield [_like(t, domain(_tame(t, seed))) for seed, t in enumerate(tensors, 1)]


def _tame(tensor: Tensor, seed: int) -> Tensor:
    """Float64 near a tensor: of medium size, not at whole numbers, and no two of them equal but by chance.

    Each element is made an eighth to three sixteenths smaller, which leaves ties and the ends of intervals by more than
    a step. One that is not finite, 0 or of another size gives way to one that the tensor has elsewhere.
    """
    flat = tensor.detach().double().numpy().reshape(-1)
    z = integers(seed, flat.size)
    size = np.abs(flat)
    usable = (size >= _LEAST) & (size <= _MOST)
    if usable.any():
        others = flat[usable]
        flat = np.where(usable, flat, others[(z >> np.uint64(32)) % np.uint64(len(others))])
    else:
        flat = 0.5 + (z >> np.uint64(40)) * 2.0**-25
    flat = flat * (0.875 - (z & np.uint64(0xFFFF)) * 2.0**-20)
    return torch.from_numpy(flat.reshape(tensor.shape))


def _like(tensor: Tensor, values: Tensor) -> Tensor:
    """Values in the dtype and layout of a tensor, rounded to few bits."""
    bits = PRECISIONS[tensor.dtype].bits
    mantissa, exponent = torch.frexp(values)
    short = torch.ldexp((mantissa * 2.0**bits).round(), exponent - bits)
    expanded = any(n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride()))
    strides = short.stride() if expanded else tensor.stride()
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(short)


def signs(seed: int, shape: torch.Size) -> Tensor:
    """Float64 of +-1/2, +-3/4 and +-1."""
    z = integers(seed, shape.numel())
    sizes = 0.5 + 0.25 * ((z >> np.uint64(20)) % np.uint64(3)).astype(np.float64)
    return torch.from_numpy(np.where(z & np.uint64(1), sizes, -sizes)).reshape(shape)


@dataclass(frozen=True)
class Slopes:
    """Of the outputs of a function, all in a row: their slopes along a direction, the errors of these, and which slopes
    are known. `sizes` are those of values and slopes."""

    slopes: Tensor
    errors: Tensor
    known: Tensor
    sizes: Tensor


def slopes_of(function: Function, point: Sequence[Tensor], direction: Sequence[Tensor], precision: Precision) -> Slopes:
    """Slopes by differences.

    Raises:
        NoPointError: if no value at the point is finite.
    """

    def at(h: float) -> Tensor:
        return joined(function([(x.double() + h * v).to(x.dtype) for x, v in zip(point, direction)]))

    values = at(0.0)
    if not values.isfinite().any():
        raise NoPointError("no value is finite")
    found = [(at(h) - at(-h)) / (2 * h) for h in (precision.step, precision.step / 2, precision.step / 4)]
    once = (4 * found[1] - found[0]) / 3
    twice = (4 * found[2] - found[1]) / 3
    slopes = (16 * twice - once) / 15
    values = values.where(values.isfinite(), torch.nan)  # what is infinite has no slope
    noise = precision.noise * values.abs()
    errors = (slopes - twice).abs() + noise
    known = slopes.isfinite() & (errors <= precision.near * slopes.abs() + 2 * noise)
    return Slopes(slopes, errors, known, slopes.abs() + values.abs())


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all, in a row of float64."""
    return torch.cat([torch.zeros(0).double(), *(t.detach().double().reshape(-1) for t in tensors)])


@dataclass(frozen=True)
class Derivative:
    """What autograd gave for the outputs of a function, weighted: `None` for an input that no output depends on."""

    weights: list[Tensor]
    gradients: list[Tensor | None]


def check_derivative(function: Function, point: Sequence[Tensor], names: Sequence[str]) -> Derivative:
    """Compare what autograd gives for a function with differences, along a direction in which all inputs change.

    Args:
        function: of some tensors, to tensors, float32 or float64.
        point: those tensors.
        names: theirs, for the message.

    Raises:
        AssertionError: if they differ; it names the inputs whose derivative is wrong.
        NoPointError: if differences say nothing here: no value is finite, or no slope is known.
    """
    leaves = [x.detach().requires_grad_() for x in point]
    with torch.enable_grad():
        outputs = function(leaves)
    precision = max((PRECISIONS[t.dtype] for t in (*point, *outputs)), key=lambda p: p.step)
    directions = [x.double() * signs(20 + n, x.shape) for n, x in enumerate(point)]
    found = slopes_of(function, point, directions, precision)
    if not found.known.any():
        raise NoPointError(f"none of {found.known.numel()} slopes is known")
    weights = _weights(outputs, found)
    gradients = _gradients(outputs, leaves, weights)
    weight, known = joined(weights), found.known
    if not (found.sizes.isfinite().all() or joined([g for g in gradients if g is not None]).isfinite().all()):
        raise NoPointError("a value and its gradient are not finite")
    fault = _fault(gradients, directions, weight, found, precision)
    if fault is not None:
        wrong = []
        for n, name in enumerate(names):
            alone = [d if m == n else torch.zeros_like(d) for m, d in enumerate(directions)]
            of_one = slopes_of(function, point, alone, precision)
            one = _fault(gradients, alone, weight, replace(of_one, known=of_one.known & known), precision)
            if one is not None:
                wrong.append(f"{name}: {one}")
        raise AssertionError("; ".join(wrong) or f"all inputs together: {fault}")
    return Derivative(weights, gradients)


def _weights(outputs: Sequence[Tensor], found: Slopes) -> list[Tensor]:
    """Of each output, so that those that are known count alike; 0 for the others. They have few bits."""
    least = max(2.0**-20, float(found.sizes[found.known].max()) * 2.0**-8)
    scale = torch.exp2(-found.sizes.nan_to_num().clamp(least, 2.0**20).log2().round()) * found.known
    made, begin = [], 0
    for n, y in enumerate(outputs):
        part = scale[begin : begin + y.numel()].reshape(y.shape)
        made.append((signs(40 + n, y.shape) * part).to(y.dtype))
        begin += y.numel()
    return made


def _gradients(outputs: Sequence[Tensor], leaves: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor | None]:
    roots = [(y, w) for y, w in zip(outputs, weights) if y.requires_grad]
    if not roots:
        return [None] * len(leaves)
    outputs, weights = zip(*roots)
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def _fault(
    gradients: Sequence[Tensor | None],
    directions: Sequence[Tensor],
    weight: Tensor,
    found: Slopes,
    precision: Precision,
) -> str | None:
    """What is wrong with the derivative along a direction, or None."""
    known = found.known
    terms = (weight * found.slopes)[known]
    parts = joined([g.double() * d for g, d in zip(gradients, directions) if g is not None])
    expected, actual = float(terms.sum()), float(parts.sum())
    sizes = max(float(terms.abs().sum()), float(parts.abs().sum()))
    bound = 2 * float((weight.abs() * found.errors)[known].sum()) + precision.rounding * sizes
    if abs(actual - expected) <= bound:
        return None
    return f"{actual:.8g} along a direction, by differences {expected:.8g} within {bound:.2g}"
