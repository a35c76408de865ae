"""interpolate: elements, or sums of weighted elements, at positions that are exact fractions.

Where an output element lies in the input is a rational number, computed in integers; a weight is rounded to a double
and from that to the dtype. Sides are done one after the other, from the last one on.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import index
from typing import Any

import torch

from repdl import layout, registry
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL
from repdl.errors import (
    UnsupportedError,
    as_float,
    as_int,
    check,
    check_bool,
    check_dim,
    check_dtype,
    check_tensor,
)
from repdl.numbers import as_double
from repdl.ops._windows import Side, rows, select, table, untable
from repdl.ops.avg_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from repdl.ops.cast import cast, narrowed, widened
from repdl.replay import replayed

__all__ = ["interpolate"]

Tensor = torch.Tensor
_ops = registry.functions
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


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _smoothed_taps(mode: str, size: int, count: int, factor: float | None, align: bool) -> tuple[Tensor, Tensor]:
    """As `_taps`, with antialias; what an element has less than another is position `size`, which is a zero."""
    if align:
        scale = Fraction(size - 1, count - 1) if count > 1 else Fraction(0)
    else:
        scale = Fraction(size, count) if factor is None else 1 / Fraction(factor)
    taps = [_smoothed(mode, size, scale, i) for i in range(count)]
    most = max(len(at) for at, _ in taps)
    places = [[*at, *[size] * (most - len(at))] for at, _ in taps]
    weights = [[*map(as_double, weights), *[0.0] * (most - len(weights))] for _, weights in taps]
    return torch.tensor(places), torch.tensor(weights, dtype=torch.float64)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _taps(mode: str, size: int, count: int, factor: float | None, align: bool) -> tuple[Tensor, Tensor]:
    """Positions in the input, `(O, T)`, and their weights as doubles, of the elements of a side."""
    kind = _nearest if mode.startswith("nearest") else _cubic if mode == "bicubic" else _linear
    taps = [kind(position, size - 1) for position in _positions(mode, size, count, factor, align)]
    weights = [[as_double(w) for w in weights] for _, weights in taps]
    return torch.tensor([at for at, _ in taps]), torch.tensor(weights, dtype=torch.float64)


def _resampled(input: Tensor, dim: int, at: Tensor, weights: Tensor, with_zero: bool, contract: str) -> Tensor:
    """One side: the sum of weighted elements, in ascending order of positions; perhaps a zero behind the last one."""
    side = input.movedim(dim, 0)
    columns = side.reshape(side.shape[0], -1)
    columns = torch.nn.functional.pad(columns, (0, 0, 0, 1)) if with_zero else columns
    terms = select(columns, at, contract)
    factors = cast(weights.to(input.device), input.dtype).unsqueeze(2)
    total = _ops.sum(_ops.mul(terms, factors, contract), [1], False, contract)
    return total.view(-1, *side.shape[1:]).movedim(0, dim)  # type: ignore[no-any-return]


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


@replayed
def interpolate(
    input: Tensor,
    size: int | None = None,
    scale_factor: list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    *,
    contract: Contract | str | None = None,
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
        DTypeError: if `input` is of no dtype of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html
    """
    op, name = "interpolate", contract_name(contract)
    check_tensor(op, input=input)
    check_dim(op, (3, 4, 5), input=input)
    check_dtype(op, ALL, input=input)
    check_bool(op, antialias=antialias)
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
        return _AREA[dims - 1](input, counts, contract=name)
    find = _smoothed_taps if antialias else _taps
    taps = [find(mode, n, c, f, bool(align_corners)) for n, c, f in zip(sizes, counts, factors)]
    if mode.startswith("nearest"):
        place, _ = rows([Side(at.to(input.device), None) for at, _ in taps], sizes)
        return untable(select(table(input, dims), place.squeeze(1), name), input, counts)
    storage, (output,) = widened(input)
    for d in range(dims - 1, -1, -1):
        if counts[d] != sizes[d] or factors[d] not in (None, 1):
            at, weights = (t.to(input.device) for t in taps[d])
            output = _resampled(output, d + 2, at, weights, antialias, name)
    return narrowed(output, storage).contiguous(memory_format=layout.memory_format(input))
