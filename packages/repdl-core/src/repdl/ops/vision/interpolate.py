"""interpolate: elements, or sums of weighted elements, at positions that are exact fractions.

Where an output element lies in the input is a rational number, computed in integers; a weight is rounded to a double
and from that to the dtype. Sides are done one after the other, from the last one on. The ops get positions and weights
as integers, weights as the bits of doubles: what a call depends on beside its tensors are numbers (`repdl.callcache`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from operator import index
from struct import pack, unpack
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes
from repdl.dtypes.rounding import as_double
from repdl.dynamo import constant_result
from repdl.errors import UnsupportedError, check, check_dim, check_dtype, check_size
from repdl.ops.common import narrowed, to_device, widened
from repdl.ops.declare import public
from repdl.ops.pointwise.cast import cast
from repdl.ops.pooling._windows import Side, direction, resized, rows, select, table, untable
from repdl.ops.pooling.avg_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from repdl.registry import as_float, as_int, computes, define, functions as _ops
from repdl.tensors import layout

__all__ = ["interpolate"]

_AREA: tuple[Callable[..., Tensor], ...] = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
_SIDES = {"linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}
MODES = ("nearest", "nearest-exact", "area", *_SIDES)

Taps = tuple[tuple[int, ...], tuple[Fraction, ...]]
"""Positions in the input, and their weights."""


def _keys(x: Fraction, a: Fraction) -> Fraction:
    """Keys's convolution of |x|, which is 0 from 2 on."""
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else Fraction(0)


def _cubic(position: Fraction, last: int) -> Taps:
    """With a = -3/4; positions beyond the edge are those at it."""
    a, at = Fraction(-3, 4), position.__floor__()
    t = position - at
    near = tuple(min(max(at + i, 0), last) for i in (-1, 0, 1, 2))
    return near, (_keys(t + 1, a), _keys(t, a), _keys(1 - t, a), _keys(2 - t, a))


def _linear(position: Fraction, last: int) -> Taps:
    position = min(max(position, Fraction(0)), Fraction(last))
    at = position.__floor__()
    t = position - at
    return (at, min(at + 1, last)), (1 - t, t)


def _nearest(position: Fraction, last: int) -> Taps:
    return (min(max(position.__floor__(), 0), last),), (Fraction(1),)


def _positions(mode: str, size: int, count: int, factor: float | None, align: bool) -> list[Fraction]:
    """Where each of `count` elements lies on a side of `size`."""
    if align:
        return [Fraction(i * (size - 1), max(count - 1, 1)) for i in range(count)]
    scale = Fraction(size, count) if factor is None else 1 / Fraction(factor)
    half = Fraction(0 if mode == "nearest" else 1, 2)
    back = Fraction(0 if mode.startswith("nearest") else 1, 2)
    return [(i + half) * scale - back for i in range(count)]


def _smoothed(mode: str, size: int, scale: Fraction, number: int) -> Taps:
    """Element `number` with antialias: those around it, as far as the filter reaches that is as wide as the scale."""
    half, width = Fraction(1, 2), max(scale, Fraction(1))
    center, reach = scale * (number + half), width * (2 if mode == "bicubic" else 1)
    first, end = max((center - reach + half).__floor__(), 0), min((center + reach + half).__floor__(), size)
    distances = [abs(j - center + half) / width for j in range(first, end)]
    if mode == "bicubic":
        weights = [_keys(x, -half) for x in distances]
    else:
        weights = [max(1 - x, Fraction(0)) for x in distances]
    total = sum(weights)
    return tuple(range(first, end)), tuple(w / total for w in weights)


@cache
def _computed_taps(
    mode: str, size: int, count: int, factor: float | None, align: bool, antialias: bool
) -> tuple[list[list[int]], list[list[int]]]:
    if antialias:
        if align:
            scale = Fraction(size - 1, count - 1) if count > 1 else Fraction(0)
        else:
            scale = Fraction(size, count) if factor is None else 1 / Fraction(factor)
        taps = [_smoothed(mode, size, scale, i) for i in range(count)]
    else:
        kind = _nearest if mode.startswith("nearest") else _cubic if mode == "bicubic" else _linear
        taps = [kind(position, size - 1) for position in _positions(mode, size, count, factor, align)]
    return [list(at) for at, _ in taps], [[_bits(as_double(w)) for w in weights] for _, weights in taps]


@constant_result
def _taps(
    mode: str, sizes: list[int], counts: list[int], factors: list[float | None], align: bool, antialias: bool
) -> tuple[list[int], list[int]]:
    """Positions in the input of the elements of each side, in row-major order, and the bits of their weights.

    With antialias, what an element has less than another is a position behind the last one, which is no element.
    """
    sides = [_computed_taps(mode, *side, align, antialias) for side in zip(sizes, counts, factors)]
    most = max((len(at) for places, _ in sides for at in places), default=0)
    places = [i for (all_at, _), n in zip(sides, sizes) for at in all_at for i in (*at, *[n] * (most - len(at)))]
    return places, [w for _, rows in sides for row in rows for w in (*row, *[0] * (most - len(row)))]


def _bits(value: float) -> int:
    return unpack("<q", pack("<d", value))[0]


def _check_images(
    op: str, name: str, images: Tensor, at: list[int], counts: Sequence[int], ends: Sequence[int]
) -> None:
    """Raise unless `at` has as many positions for each of `counts` elements of a side, all less than its end."""
    check_dim(op, (3, 4, 5), **{name: images})
    taps = len(at) // max(sum(counts), 1)
    check(op, len(at) == taps * sum(counts), lambda: f"at has {len(at)} positions, expected as many of each element")
    first = 0
    for count, end in zip(counts, ends):
        here = at[first : first + taps * count]
        check(
            op,
            not here or 0 <= min(here) <= max(here) < end,
            lambda: f"at has positions from {min(here)} to {max(here)} of a side, expected 0 to {end - 1}",
        )
        first += taps * count


def _check_sides(op: str, name: str, images: Tensor, size: list[int]) -> None:
    check_dim(op, (3, 4, 5), **{name: images})
    check_size(op, "len(size)", len(size), images.dim() - 2, f"{name}.dim() - 2")
    check(op, min(size) > 0, lambda: f"size is {tuple(size)}, expected at least 1")


def _check_nearest(backward: bool, images: Tensor, at: list[int], size: list[int], contract: str) -> None:
    op, name, counts, sizes = direction("nearest", backward, images, size)
    _check_sides(op, name, images, size)
    check_size(op, "len(at)", len(at), sum(counts), "sum(grad.shape[2:])" if backward else "sum(size)")
    _check_images(op, name, images, at, counts, sizes)


def _place(at: list[int], counts: Sequence[int], sizes: Sequence[int], device: torch.device) -> Tensor:
    """The row of a table of positions that each output is, (O)."""
    sides = to_device(torch.tensor(at), device).split([int(n) for n in counts])
    return rows([Side(positions.unsqueeze(1), None) for positions in sides], sizes)[0].squeeze(1)


def _nearest_formula(input: Tensor, at: list[int], size: list[int], contract: str) -> Tensor:
    place = _place(at, size, input.shape[2:], input.device)
    return untable(select(table(input, len(size)), place, contract), input, size)


def _nearest_backward_formula(grad: Tensor, at: list[int], size: list[int], contract: str) -> Tensor:
    place = _place(at, grad.shape[2:], size, grad.device)
    total = _ops.index_sum(table(grad, len(size)), place, math.prod(size), contract)
    return untable(total, grad, size)


define(
    "nearest",
    "(Tensor input, int[] at, int[] size, str contract) -> Tensor",
    check=lambda *args: _check_nearest(False, *args),
    fake=resized,
    gradients={"input": lambda g, at, input_shape, contract: _ops.nearest_backward(g, at, input_shape[2:], contract)},
    dtypes=Dtypes(keeps_16_bit=True),
    formula=_nearest_formula,
    calls=("embedding",),
    family="interpolate",
)
define(
    "nearest_backward",
    "(Tensor grad, int[] at, int[] size, str contract) -> Tensor",
    check=lambda *args: _check_nearest(True, *args),
    fake=resized,
    gradients={"grad": lambda g, at, grad_shape, contract: _ops.nearest(g, at, grad_shape[2:], contract)},
    dtypes=Dtypes(),
    formula=_nearest_backward_formula,
    calls=("index_sum",),
    family="interpolate",
)


def _check_resample(
    backward: bool, images: Tensor, at: list[int], weights: list[int], sides: list[int], size: list[int], contract: str
) -> None:
    op, name, counts, sizes = direction("resample", backward, images, size)
    check_dim(op, (3, 4, 5), **{name: images})
    dims = images.dim() - 2
    check(
        op,
        sides == sorted(set(sides)) and all(0 <= d < dims for d in sides),
        lambda: f"sides is {sides}, expected some of 0 to {dims - 1}, ascending",
    )
    check_size(op, "len(weights)", len(weights), len(at), "len(at)")
    _check_sides(op, name, images, size)
    _check_images(op, name, images, at, [counts[d] for d in sides], [sizes[d] + 1 for d in sides])
    whose = "gradient" if backward else "input"
    for d, n in enumerate(size):
        if d not in sides:
            check_size(op, f"size[{d}]", n, images.shape[2 + d], f"that of the {whose}, as sides has it not")


def _terms(at: list[int], weights: list[int], counts: Sequence[int], like: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Positions and weights of each side, (O, T)."""
    numbers = [int(n) for n in counts]
    taps = len(at) // max(sum(numbers), 1)
    places = to_device(torch.tensor(at, dtype=torch.int64).view(-1, taps), like.device).split(numbers)
    factors = to_device(torch.tensor(weights, dtype=torch.int64).view(torch.float64), like.device)
    return list(zip(places, cast(factors, like.dtype).view(-1, taps).split(numbers)))


def _resample_formula(
    input: Tensor, at: list[int], weights: list[int], sides: list[int], size: list[int], contract: str
) -> Tensor:
    """One side after the other: the sum of weighted elements, in ascending order of positions.

    Terms that are no elements are zeros behind the others, which change no lane.
    """
    output, terms = input, _terms(at, weights, [size[d] for d in sides], input) if sides else []
    for d, (place, factors) in list(zip(sides, terms))[::-1]:
        side = output.movedim(d + 2, 0)
        table = torch.nn.functional.pad(side.reshape(side.shape[0], -1), (0, 0, 0, 1))  # and a zero, for no element
        elements = select(table, place, contract)
        total = _ops.sum(_ops.mul(elements, factors.unsqueeze(2), contract), [1], False, contract)
        output = total.view(size[d], *side.shape[1:]).movedim(0, d + 2)
    return _as_images(output, input)


def _resample_backward_formula(
    grad: Tensor, at: list[int], weights: list[int], sides: list[int], size: list[int], contract: str
) -> Tensor:
    output, terms = grad, _terms(at, weights, [grad.shape[d + 2] for d in sides], grad) if sides else []
    for d, (place, factors) in zip(sides, terms):
        side = output.movedim(d + 2, 0)
        values = _ops.mul(side.reshape(side.shape[0], 1, -1), factors.unsqueeze(2), contract)
        total = _ops.index_sum(values.flatten(0, 1), place.reshape(-1), size[d] + 1, contract).narrow(0, 0, size[d])
        output = total.view(size[d], *side.shape[1:]).movedim(0, d + 2)
    return _as_images(output, grad)


def _as_images(output: Tensor, like: Tensor) -> Tensor:
    stored = output.contiguous(memory_format=layout.memory_format(like))
    return stored.clone() if stored is like else stored


define(
    "resample",
    "(Tensor input, int[] at, int[] weights, int[] sides, int[] size, str contract) -> Tensor",
    check=lambda *args: _check_resample(False, *args),
    fake=resized,
    gradients={
        "input": lambda g, at, weights, sides, input_shape, contract: _ops.resample_backward(
            g, at, weights, sides, input_shape[2:], contract
        )
    },
    dtypes=Dtypes(),
    formula=_resample_formula,
    calls=("embedding", "mul", "sum"),
    family="interpolate",
)
define(
    "resample_backward",
    "(Tensor grad, int[] at, int[] weights, int[] sides, int[] size, str contract) -> Tensor",
    check=lambda *args: _check_resample(True, *args),
    fake=resized,
    gradients={
        "grad": lambda g, at, weights, sides, grad_shape, contract: _ops.resample(
            g, at, weights, sides, grad_shape[2:], contract
        )
    },
    dtypes=Dtypes(),
    formula=_resample_backward_formula,
    calls=("index_sum", "mul"),
    family="interpolate",
)


def _each(op: str, name: str, value: Any, dims: int, read: Callable[[str, str, Any], Any]) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        return [read(op, name, value)] * dims
    check(op, len(value) == dims, lambda: f"{name} has {len(value)} values, expected one number or {dims}")
    return [read(op, f"{name}[{i}]", v) for i, v in enumerate(value)]


def _scaled(size: int, factor: float) -> int:
    """`floor(size * factor)`, the product rounded to a double, as Python has it."""
    if torch.compiler.is_compiling():  # Dynamo traces no fraction
        return int(float(size) * factor)
    return int(as_double(size * Fraction(factor)))


@public("interpolate")
def interpolate(
    input: Tensor,
    size: int | None = None,
    scale_factor: list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """The input on another grid: `(N, C, H, W) -> (N, C, OH, OW)`, of 1 to 3 sides, any floating-point dtype.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: sizes of the output, one for all sides or one for each.
        scale_factor: in place of them, factors of the input's: sizes are rounded down.
        mode: 'nearest', 'nearest-exact', 'area', or 'linear', 'bilinear', 'bicubic', 'trilinear' for the number of
            sides that they are for. Positions are exact, where torch rounds them to float32.
        align_corners: for the latter: whether the elements at the corners lie on each other.
        recompute_scale_factor: whether positions follow from the sizes, and not from `scale_factor`.
        antialias: whether 'bilinear' or 'bicubic' weigh every element that an element of a smaller output covers.

    Raises:
        ShapeError: if sizes, factors or the mode do not fit the input.
        UnsupportedError: for the mode 'lanczos'.
    """
    op = "interpolate"
    check_dim(op, (3, 4, 5), input=input)
    check_dtype(op, ALL, input=input)
    if mode == "lanczos":
        raise UnsupportedError(f"{op}: mode is 'lanczos', expected one of {', '.join(MODES)}")
    dims = input.dim() - 2
    check(op, mode in MODES, lambda: f"mode is {mode!r}, expected one of {', '.join(MODES)}")
    check(
        op,
        dims in _SIDES.get(mode, (dims,)),
        lambda: f"mode is {mode!r} with input.dim() = {input.dim()}, expected {_SIDES[mode][0] + 2} dimensions",
    )
    check(
        op,
        not antialias or mode in ("bilinear", "bicubic"),
        lambda: f"antialias is True with mode {mode!r}, expected bilinear or bicubic",
    )
    check(
        op,
        align_corners is None or mode in _SIDES,
        lambda: f"align_corners is {align_corners} with mode {mode!r}, expected None",
    )
    check(op, (size is None) != (scale_factor is None), "expected one of size and scale_factor")
    check(op, all(input.shape[1:]), lambda: f"input.shape is {tuple(input.shape)}, expected 0 for the batch only")
    sizes = [index(n) for n in input.shape[2:]]  # a number of a symbolic one, too: positions are computed in integers
    factors: list[float | None] = [None] * dims
    if scale_factor is None:
        check(op, not recompute_scale_factor, "recompute_scale_factor is True with size, expected scale_factor")
        counts = _each(op, "size", size, dims, as_int)
    else:
        given = _each(op, "scale_factor", scale_factor, dims, as_float)
        check(op, min(given) > 0, lambda: f"scale_factor is {scale_factor}, expected numbers above 0")
        counts = [_scaled(n, f) for n, f in zip(sizes, given)]
        if not recompute_scale_factor and mode != "area":
            factors = list(given)
    check(op, min(counts) > 0, lambda: f"size is {tuple(counts)}, expected at least 1")
    if mode == "area":
        return _AREA[dims - 1](input, counts, contract=contract)
    sides = [d for d in range(dims) if counts[d] != sizes[d] or factors[d] not in (None, 1)]
    if mode.startswith("nearest"):
        sides = list(range(dims))
    chosen = ([x[d] for d in sides] for x in (sizes, counts, factors))
    at, weights = _taps(mode, *chosen, bool(align_corners), antialias)
    if mode.startswith("nearest"):
        return _ops.nearest(input, at, counts, contract)
    if not sides:
        storage, (output,) = widened(input)
        return narrowed(output, storage).contiguous(memory_format=layout.memory_format(input))
    return _ops.resample(input, at, weights, sides, counts, contract)


def _aten_upsample(mode: str, antialias: bool = False) -> Callable[..., Any]:
    def upsample(
        input: Tensor,
        output_size: Any = None,
        align_corners: bool | None = None,
        scale_factors: Any = None,
        **scales: float | None,
    ) -> Tensor:
        factors = scale_factors or [s for s in scales.values() if s is not None] or None
        corners = align_corners if mode not in ("nearest", "nearest-exact") else None
        if factors is None:
            return interpolate(input, output_size, None, mode, corners, antialias=antialias)
        if output_size is not None:  # torch's own functions give both where scale_factor was given
            made = [math.floor(n * factor) for n, factor in zip(input.shape[2:], factors)]
            if list(output_size) != made:
                raise UnsupportedError(
                    f"interpolate: output_size is {list(output_size)}, expected {made}, which scale factors {factors} "
                    f"give an input of shape {list(input.shape)}, or no factors"
                )
        return interpolate(input, None, factors, mode, corners, antialias=antialias)

    return upsample


for _mode, _names in {
    "nearest": "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
    "nearest-exact": "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d",
    "linear": "upsample_linear1d",
    "bilinear": "upsample_bilinear2d",
    "bicubic": "upsample_bicubic2d",
    "trilinear": "upsample_trilinear3d",
}.items():
    computes(*_names.split())(_aten_upsample(_mode))
computes("_upsample_bilinear2d_aa")(_aten_upsample("bilinear", antialias=True))
computes("_upsample_bicubic2d_aa")(_aten_upsample("bicubic", antialias=True))
