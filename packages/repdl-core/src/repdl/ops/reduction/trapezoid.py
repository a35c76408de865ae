"""trapezoid and cumulative_trapezoid: integrals of what lies on lines between points."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check
from repdl.ops.common import constant, narrowed, normalize_dim, widened
from repdl.ops.declare import public
from repdl.ops.pointwise.elementwise import promoted
from repdl.registry import as_float, functions as _ops

__all__ = ["cumulative_trapezoid", "trapezoid"]


def _areas(
    op: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int, contract: str
) -> tuple[torch.dtype, Tensor, int]:
    """Twice the area between neighbours, and the dimension."""
    check(op, x is None or dx is None, "x and dx are given, expected at most one")
    if x is not None and x.dim() == 1 and y.dim() > 1:
        x = x.reshape([-1 if d == normalize_dim(op, dim, y.dim()) else 1 for d in range(y.dim())])
    pair = promoted(op, divides=True, y=y, **({} if x is None else {"x": x}))
    assert pair is not None
    storage, wide = widened(*pair)
    y, position = wide[0], normalize_dim(op, dim, y.dim())
    check(op, y.dim() > 0, "y is 0-D, expected 1-D or more")
    size = y.shape[position]
    if size == 0:
        return storage, y, position
    both = _ops.add(y.narrow(position, 1, size - 1), y.narrow(position, 0, size - 1), contract)
    if x is None:
        width = constant(1.0 if dx is None else as_float(op, "dx", dx), y.dtype, y.device)
    else:
        x = wide[1].reshape([1] * (y.dim() - wide[1].dim()) + list(wide[1].shape))
        length = x.shape[position]
        check(op, length == size, lambda: f"x has {length} points, expected {size} (= y.shape[{position}])")
        width = _ops.sub(x.narrow(position, 1, size - 1), x.narrow(position, 0, size - 1), contract)
    return storage, _ops.mul(both, width, contract), position


def _half(total: Tensor, storage: torch.dtype, contract: str) -> Tensor:
    return narrowed(_ops.div(total, constant(2.0, total.dtype, total.device), contract), storage)


@public("sum", uncached="functions that are cached compute it")
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1, contract: ContractLike = None
) -> Tensor:
    """The area below points `y` at `x`, or at distances `dx`, 1 by default: `(A, B, C) -> (A, C)` for `dim=1`.

    `sum((y_(i+1) + y_i) * (x_(i+1) - x_i)) / 2`. Any floating-point dtype, 16-bit floats rounded once; integers become
    floating-point.

    Args:
        x: as many points as `y` has along `dim`: 1-D, or of a shape that broadcasts with it.

    Raises:
        ShapeError: if `x` does not fit, or both `x` and `dx` are given.
    """
    op = "trapezoid"
    storage, areas, position = _areas(op, y, x, dx, dim, contract)
    return _half(_ops.sum(areas, [position], False, contract), storage, contract)


@public("scan", uncached="functions that are cached compute it")
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1, contract: ContractLike = None
) -> Tensor:
    """The areas up to each point but the first, as `trapezoid` has them: `cumsum(...) / 2`, one element less in `dim`.

    Raises:
        ShapeError: if `x` does not fit, or both `x` and `dx` are given.
    """
    op = "cumulative_trapezoid"
    storage, areas, position = _areas(op, y, x, dx, dim, contract)
    return _half(_ops.cumsum(areas, position, contract), storage, contract)
