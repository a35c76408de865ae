"""What norms share: of layer_norm and rms_norm the rows, of layer_norm and group_norm the derivative."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.errors import check, check_size


def check_normalized_shape(op: str, input: Tensor, normalized_shape: Sequence[int], **vectors: Tensor | None) -> None:
    """Raise unless normalized_shape is the end of input's shape, and the shape of each vector."""
    shape = tuple(normalized_shape)
    check(op, len(shape) > 0, "normalized_shape is empty, expected one dimension or more")
    check(
        op,
        input.dim() >= len(shape),
        lambda: (
            f"input.dim() is {input.dim()} (shape {tuple(input.shape)}), "
            f"expected {len(shape)} or more (= the dimensions of normalized_shape)"
        ),
    )
    end = tuple(input.shape[input.dim() - len(shape) :])
    check_size(op, f"input.shape[-{len(shape)}:]", end, shape, "normalized_shape")
    for name, vector in vectors.items():
        if vector is not None:
            check_size(op, f"{name}.shape", vector.shape, shape, "normalized_shape")


def statistics_shape(input: Tensor, normalized_shape: Sequence[int]) -> list[int]:
    """`(..., *normalized_shape) -> (..., 1, ..., 1)`."""
    rows = input.dim() - len(normalized_shape)
    return [*input.shape[:rows], *(1 for _ in normalized_shape)]
