"""Maxima over windows that cover the input: windows are those of max_pool, or rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.contract import ContractLike
from repdl.ops.declare import of_sides
from repdl.ops.pooling._windows import adaptive_side, rows, select, table, untable
from repdl.ops.pooling.avg_pool import adaptive_sizes
from repdl.ops.pooling.max_pool1d import max_pool1d
from repdl.ops.pooling.max_pool2d import max_pool2d
from repdl.ops.pooling.max_pool3d import max_pool3d
from repdl.registry import computes, functions as _ops

__all__ = ["adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"]

Pooled = Tensor | tuple[Tensor, Tensor]
Sizes = int | Sequence[int | None] | None
_REGULAR = (max_pool1d, max_pool2d, max_pool3d)


def _adaptive(
    dims: int, input: Tensor, output_size: Sizes, return_indices: bool = False, *, contract: ContractLike = None
) -> Pooled:
    """Maximum of each of {windows} windows: `(N, C, {sides}) -> (N, C, {out})`, any floating-point dtype.

    Window i of a side of n elements, of m, goes from `floor(i * n / m)` to `ceil((i + 1) * n / m)`.

    Args:
        input: (N, C, {sides}) or (C, {sides}).
        output_size: one integer for all sides, or {out}; None keeps a side.
        return_indices: also return the int64 index of each maximum among the elements of its channel.

    Raises:
        ShapeError: if a size is negative, or the input has none.
    """
    op = f"adaptive_max_pool{dims}d"
    counts = adaptive_sizes(op, dims, input, output_size)
    sizes = input.shape[-dims:]
    if 0 in counts:
        empty = input.new_zeros((*input.shape[:-dims], *counts))
        return (empty, empty.long()) if return_indices else empty
    if input.numel() and not any(n % c for c, n in zip(counts, sizes)):
        kernel = [n // c for c, n in zip(counts, sizes)]
        return _REGULAR[dims - 1](input, kernel, return_indices=return_indices, contract=contract)
    place, _ = rows([adaptive_side(n, c, input.device) for n, c in zip(sizes, counts)], sizes)
    windows, length = place.shape
    # Those that do not exist repeat one that does: no maximum, and no index, changes.
    image = select(table(input, dims), place, contract).unsqueeze(1)  # (windows, 1, length, columns)
    if not input.numel():
        empty = untable(image[:, 0, 0], input, counts)
        return (empty, empty.long()) if return_indices else empty
    largest, at = _ops.max_pool2d(image, [length, 1], [1, 1], [0, 0], [1, 1], False)
    columns = image.shape[-1]
    output = untable(largest.reshape(windows, columns), input, counts)
    if not return_indices:
        return output
    return output, untable(place.gather(1, at.reshape(windows, columns) // columns), input, counts)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = of_sides(_adaptive, "adaptive_max_pool", "max_pool2d")

computes("adaptive_max_pool1d", given={"return_indices": True})(adaptive_max_pool1d)
computes("adaptive_max_pool2d", given={"return_indices": True})(adaptive_max_pool2d)
computes("adaptive_max_pool3d", given={"return_indices": True})(adaptive_max_pool3d)
