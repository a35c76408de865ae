"""What convolutions of two and of three sides share: sizes, checks, padding by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl.errors import UnsupportedError, as_int, as_ints, check, check_size

_SIDES = ("depth", "height", "width")


def named_sides(dims: int) -> tuple[str, ...]:
    """The names of the last dimensions."""
    return _SIDES[3 - dims :]


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Number of positions of a dilated kernel on a padded side of length `size`."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def as_sides(op: str, name: str, value: Any, dims: int) -> list[int]:
    """One integer, or a sequence of one or one a side."""
    if not isinstance(value, (list, tuple)):
        return [as_int(op, name, value)] * dims
    values = as_ints(op, name, value)
    if len(values) == 1:
        values = values * dims
    names = ", ".join(named_sides(dims))
    count = {2: "two", 3: "three"}[dims]
    check(op, len(values) == dims, lambda: f"{name} is {value}, expected one integer or {count} ({names})")
    return values


def check_options(
    op: str, dims: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> None:
    """Raise unless the options of a convolution are in range."""
    names = ", ".join(named_sides(dims))
    for name, values, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        check(op, len(values) == dims, lambda: f"{name} has {len(values)} values, expected {dims} ({names})")
        check(op, min(values) >= least, lambda: f"{name} is {tuple(values)}, expected at least {least}")
    check(op, groups >= 1, lambda: f"groups is {groups}, expected a positive integer")


def check_geometry(
    op: str,
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> list[int]:
    """Raise unless the shapes fit together; returns the output shape."""
    dims = len(weight_shape) - 2
    check_options(op, dims, stride, padding, dilation, groups)
    channels, out_channels = input_shape[1], weight_shape[0]
    if channels % groups or channels // groups != weight_shape[1]:
        check_size(op, "input.shape[1]", channels, weight_shape[1] * groups, "weight.shape[1] * groups")
    check(
        op,
        out_channels > 0 and out_channels % groups == 0,
        lambda: f"weight.shape[0] is {out_channels}, expected a positive multiple of groups = {groups}",
    )
    shape = [input_shape[0], out_channels]
    for axis, side in enumerate(named_sides(dims)):
        size, kernel = input_shape[2 + axis], weight_shape[2 + axis]
        check(op, kernel > 0, lambda: f"weight {side} is 0, expected a positive kernel size")
        check(op, size > 0, lambda: f"input {side} is 0, expected a positive size")
        n = output_size(size, kernel, stride[axis], padding[axis], dilation[axis])
        check(
            op,
            size + 2 * padding[axis] >= dilation[axis] * (kernel - 1) + 1,
            lambda: (
                f"the kernel is larger than the padded input: {side} {dilation[axis] * (kernel - 1) + 1} > "
                f"{size + 2 * padding[axis]}; expected a smaller kernel or dilation, or more padding"
            ),
        )
        shape.append(n)
    return shape


def named_padding(
    op: str, batch: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Any, dilation: Sequence[int]
) -> tuple[torch.Tensor, list[int]]:
    """The input and the zeros on each side: 'same' keeps the size, an odd zero going to the end of the side."""
    dims = len(kernel)
    if padding == "valid":
        return batch, [0] * dims
    if padding == "same":
        if any(s != 1 for s in stride):
            raise UnsupportedError(f"{op}: padding is 'same' with stride {tuple(stride)}, expected stride 1")
        total = [d * (k - 1) for d, k in zip(dilation, kernel)]
        if any(t % 2 for t in total):
            ends = [n for t in reversed(total) for n in (0, t % 2)]
            batch = torch.nn.functional.pad(batch, ends)
        return batch, [t // 2 for t in total]
    if isinstance(padding, str):
        raise UnsupportedError(f"{op}: padding is {padding!r}, expected 'same', 'valid' or integers")
    return batch, as_sides(op, "padding", padding, dims)
