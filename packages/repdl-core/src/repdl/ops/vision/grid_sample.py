"""grid_sample: elements between those of the input, weighted; affine_grid: where a linear map puts a grid.

The elements around a position are rows of a table, one for each pixel of the batch, and a row of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from operator import index

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.dtypes.rounding import as_double
from repdl.dynamo import constant_result
from repdl.errors import DTypeError, check, check_dim, check_dtype, check_one_of, check_size
from repdl.ops.common import constant, is_derived, narrowed, to_device, widened
from repdl.ops.declare import public
from repdl.ops.linalg.matmul import bmm
from repdl.ops.pointwise.cast import cast
from repdl.ops.pointwise.elementwise import add, div
from repdl.ops.pointwise.ternary import clamp
from repdl.ops.pooling._windows import select
from repdl.registry import as_ints, computes, functions as _ops

__all__ = ["affine_grid", "grid_sample"]

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _position(x: Tensor, size: int, padding_mode: str, align: bool, contract: str) -> Tensor:
    """Coordinates from -1 to 1 as positions on a side."""

    def scalar(value: float) -> Tensor:
        return constant(value, x.dtype, x.device)

    shifted = _ops.add(x, scalar(1), contract)
    if align:
        position = _ops.mul(_ops.mul(shifted, scalar(0.5), contract), scalar(size - 1), contract)
    else:
        scaled = _ops.mul(shifted, scalar(size), contract)
        position = _ops.mul(_ops.sub(scaled, scalar(1), contract), scalar(0.5), contract)
    if padding_mode == "zeros":
        return position
    if padding_mode == "reflection":
        position = _reflected(position, size, align, contract)
    # As clamp, but for the derivative, which is 0 at both ends; the sign is right whatever the environment.
    above = _ops.sign(position.detach()) > 0
    edge = torch.where(above, scalar(size - 1), scalar(0))
    return torch.where(above & (position.detach() < size - 1), position, edge)


def _reflected(position: Tensor, size: int, align: bool, contract: str) -> Tensor:
    """Positions mirrored at the middles of the elements at the edges, or at the edges, until they are between them."""

    def scalar(value: float) -> Tensor:
        return constant(value, position.dtype, position.device)

    span = size - 1 if align else size
    if span == 0:
        return torch.zeros_like(position)
    low = scalar(0.0 if align else -0.5)
    distance = _ops.sub(position, low, contract)
    below = _ops.sign(distance.detach()) < 0
    distance = _ops.where(below, _ops.neg(distance), distance, contract)
    turns = div(distance.detach(), float(span), rounding_mode="floor", contract=contract)
    half = div(turns, 2.0, rounding_mode="floor", contract=contract)
    rest = add(distance, turns, alpha=-span, contract=contract)
    odd = add(turns, half, alpha=-2, contract=contract) != 0
    return _ops.add(_ops.where(odd, _ops.sub(scalar(span), rest, contract), rest, contract), low, contract)


def _inside(at: Tensor, size: int, padding_mode: str, align: bool) -> Tensor:
    """The elements that stand for those beyond the edges, of bicubic: whole positions, which are padded themselves."""
    if padding_mode == "reflection":
        last = size - 1
        if align:
            at = torch.where(at < 0, -at, at) % max(2 * last, 1)
            at = torch.where(at > last, 2 * last - at, at)
        else:
            at = at % (2 * size)
            at = torch.where(at > last, 2 * size - 1 - at, at)
    return at if padding_mode == "zeros" else at.clamp(0, size - 1)


_FAR = 2**30
"""Beyond it, positions of bicubic are as far."""


def _cubic(t: Tensor, contract: str) -> Tensor:
    """The weights of the elements around, `(...) -> (..., 4)`: Keys's convolution with a = -3/4."""

    def scalar(value: float) -> Tensor:
        return constant(value, t.dtype, t.device)

    def mul(a: Tensor, b: Tensor | float) -> Tensor:
        return _ops.mul(a, b if isinstance(b, Tensor) else scalar(b), contract)

    def plus(a: Tensor, b: float) -> Tensor:
        return _ops.add(a, scalar(b), contract)

    def near(x: Tensor) -> Tensor:
        return plus(mul(mul(plus(mul(x, 1.25), -2.25), x), x), 1.0)

    def far(x: Tensor) -> Tensor:
        return plus(mul(plus(mul(plus(mul(x, -0.75), 3.75), x), -6.0), x), 3.0)

    s = _ops.sub(scalar(1.0), t, contract)
    return torch.stack([far(plus(t, 1.0)), near(t), near(s), far(plus(s, 1.0))], -1)


def _neighbours(position: Tensor, size: int, mode: str, contract: str) -> tuple[Tensor, Tensor | None]:
    """The elements around a position, `(...) -> (..., 2)`, which may not exist, with their weights, `1 - t` and t; for
    bicubic (..., 4), with those of the convolution; or the nearest one, `(..., 1)`, without."""

    def numbers(*values: float) -> Tensor:
        return torch.stack([constant(v, position.dtype, position.device) for v in values])

    floor = div(position.detach(), 1.0, rounding_mode="floor", contract=contract)
    rest = _ops.sub(position, floor, contract)
    # Integers, if not too far away: NaN and the least have no neighbour that exists.
    least, most = (-_FAR, _FAR) if mode == "bicubic" else (-2, size)
    at = clamp(torch.where(floor == floor, floor, least), least, most).long().unsqueeze(-1)
    if mode == "bicubic":
        return torch.cat([at - 1, at, at + 1, at + 2], -1), _cubic(rest, contract)
    if mode == "bilinear":
        signed = _ops.mul(rest.unsqueeze(-1), numbers(-1, 1), contract)
        return torch.cat([at, at + 1], -1), _ops.add(numbers(1, 0), signed, contract)
    half = rest.detach().unsqueeze(-1)
    return at + ((half > 0.5) | ((half == 0.5) & (at % 2 == 1))), None


@public("index_sum")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Elements at the positions of a grid: `(N, C, H, W), (N, OH, OW, 2) -> (N, C, OH, OW)`, any floating-point dtype.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: positions from -1 to 1 as (x, y) or (x, y, z), of the dtype of `input`.
        mode: 'bilinear' (also of volumes), 'nearest', whose ties go to the even element, or 'bicubic' (of images).
        padding_mode: 'zeros' around the input, 'border', its last elements, or 'reflection' at them.
        align_corners: whether -1 and 1 are the middles of the elements at the edge (True) or the edge (False, None).

    Raises:
        ShapeError: if the sizes do not fit, or for 'bicubic' of a volume.
        DTypeError: if `input` is of no dtype of the contract, or `grid` of another one.
    """
    op = "grid_sample"
    check_one_of(op, MODES, mode=mode)
    check_one_of(op, PADDINGS, padding_mode=padding_mode)
    check_dim(op, (4, 5), input=input)
    check(
        op, mode != "bicubic" or input.dim() == 4, "mode is 'bicubic' and input.dim() 5, expected bilinear or nearest"
    )
    check_dim(op, input.dim(), grid=grid)
    check_dtype(op, ALL, input=input)
    if grid.dtype is not input.dtype:
        raise DTypeError(f"{op}: grid.dtype is {grid.dtype}, expected {input.dtype} (= input.dtype)")
    sizes, dims = input.shape[2:], input.dim() - 2
    check_size(op, "grid.shape[0]", grid.shape[0], input.shape[0], "input.shape[0]")
    check_size(op, "grid.shape[-1]", grid.shape[-1], dims, "the sides of input")
    check(op, all(input.shape[1:]), lambda: f"input.shape is {tuple(input.shape)}, expected 0 for the batch only")
    storage, (image, places) = widened(input, grid)
    batch, channels = image.shape[:2]
    area = math.prod(sizes)
    table = torch.nn.functional.pad(image.flatten(2).movedim(1, 2).reshape(batch * area, channels), (0, 0, 0, 1))
    rows = torch.arange(batch, device=image.device).view(batch, 1, 1)
    exists, weights = torch.ones_like(rows, dtype=torch.bool), None
    for d in range(dims):  # a coordinate of the grid is that of the last side first
        x = places[..., dims - 1 - d].flatten(1)
        padding = "zeros" if mode == "bicubic" else padding_mode
        position = _position(x, sizes[d], padding, bool(align_corners), contract)
        at, parts = _neighbours(position, sizes[d], mode, contract)
        if mode == "bicubic":
            at = _inside(at, sizes[d], padding_mode, bool(align_corners))
        inside = (at >= 0) & (at < sizes[d])
        rows = (rows.unsqueeze(-1) * sizes[d] + at.unsqueeze(-2)).flatten(2)
        exists = (exists.unsqueeze(-1) & inside.unsqueeze(-2)).flatten(2)
        if parts is not None:
            if weights is not None:
                parts = _ops.mul(weights.unsqueeze(-1), parts.unsqueeze(-2), contract).flatten(2)
            weights = parts
    at = torch.where(exists, rows, batch * area)  # (N, positions, neighbours)
    if weights is None:
        output = select(table, at.squeeze(2), contract)
        if is_derived(places):  # which is 0
            output = _ops.where(
                torch.ones_like(output, dtype=torch.bool), output, places[..., :1].flatten(1, -2), contract
            )
    else:
        factors = torch.where(exists, weights, 0).reshape(-1)
        sums = _ops.bag_sum(table, at.reshape(-1), None, factors, at.shape[2], -1, False, False, contract)
        output = sums.view(batch, at.shape[1], channels)
    return narrowed(output.movedim(2, 1).reshape(batch, channels, *grid.shape[1:-1]), storage)


@constant_result
def _line(count: int, align: bool) -> tuple[Tensor]:
    """The middles of `count` elements from -1 to 1, or elements from edge to edge, as doubles; 0 of one."""
    if align:
        values = [Fraction(2 * i - count + 1, max(count - 1, 1)) for i in range(count)]
    else:
        values = [Fraction(2 * i + 1 - count, count) for i in range(count)]
    return (torch.tensor([as_double(v) for v in values], dtype=torch.float64),)  # in a tuple Dynamo takes several


@public("index_sum")
def affine_grid(
    theta: Tensor, size: Sequence[int], align_corners: bool | None = None, *, contract: ContractLike = None
) -> Tensor:
    """A grid for `grid_sample`: `(N, 2, 3) -> (N, H, W, 2)`, or `(N, 3, 4) -> (N, D, H, W, 3)`.

    Any floating-point dtype. The products of the linear maps with (x, y, 1) or (x, y, z, 1), of exact positions that
    are rounded to the dtype.

    Args:
        theta: linear maps.
        size: (N, C, H, W) or (N, C, D, H, W), of the output of `grid_sample`.
        align_corners: as of `grid_sample`.

    Raises:
        ShapeError: if the sizes do not fit.
    """
    op = "affine_grid"
    check_dim(op, 3, theta=theta)
    check_dtype(op, ALL, theta=theta)
    sizes = [index(n) for n in as_ints(op, "size", size)]
    check(op, len(sizes) in (4, 5), lambda: f"size has {len(sizes)} values, expected 4 or 5")
    check(op, min(sizes) > 0, lambda: f"size is {tuple(sizes)}, expected numbers above 0")
    dims = len(sizes) - 2
    check_size(op, "theta.shape", list(theta.shape), [sizes[0], dims, dims + 1], "those of size")
    storage, (maps,) = widened(theta)
    lines = [cast(to_device(_line(n, bool(align_corners))[0], maps.device), maps.dtype) for n in sizes[2:]]
    axes = [*reversed(torch.meshgrid(*lines, indexing="ij")), torch.ones(sizes[2:], device=maps.device)]
    points = torch.stack([a.to(maps.dtype) for a in axes], -1).view(1, -1, dims + 1)
    grid = bmm(points.expand(sizes[0], -1, -1), maps.transpose(1, 2), contract=contract)
    return narrowed(grid, storage).view(sizes[0], *sizes[2:], dims)


@computes("grid_sampler")
def _aten_grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    mode, padding = (
        ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode],
    )
    return grid_sample(input, grid, mode, padding, align_corners)


computes("affine_grid_generator")(affine_grid)
