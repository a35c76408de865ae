"""Where the elements of outputs lie: the strides that torch gives the outputs of the same functions.

The one place for it: fake kernels allocate outputs by these rules, and `repdl.registry.native` allocates
those of native kernels with the fake kernels. Bits never depend on it. Two rules cover all ops, what has
neither is row-major:

- `pointwise`: elementwise ops keep any order of dimensions that their operands have;
- `images`: convolutions, poolings and norms know channels last, or row-major.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from repdl.errors import ShapeError


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The shape that these broadcast to.

    `torch.broadcast_shapes` would do, but loads torch's symbolic shapes at its first call:
    40 MiB and a third of a second.

    Raises:
        ShapeError: if they do not broadcast.
    """
    result = [1] * max(map(len, shapes))
    for shape in shapes:
        for axis, n in enumerate(shape, len(result) - len(shape)):
            if n == 1 or n == result[axis]:
                continue
            if result[axis] != 1:
                raise ShapeError(f"shapes {', '.join(str(tuple(s)) for s in shapes)} do not broadcast")
            result[axis] = n
    return torch.Size(result)


class Layout(NamedTuple):
    """Sizes and strides of an output; strides None: row-major."""

    shape: Sequence[int]
    strides: Sequence[int] | None = None

    def empty(self, like: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Memory for the output on the device of `like`, of its dtype unless one is given."""
        if self.strides is None:
            return like.new_empty(self.shape) if dtype is None else like.new_empty(self.shape, dtype=dtype)
        return like.new_empty_strided(self.shape, self.strides, dtype=dtype)


def pointwise(*operands: torch.Tensor) -> Layout:
    """The layout of an elementwise op's output, as torch's TensorIterator chooses it.

    Operands that all are row-major, or of one shape and channels last or dense with the same
    strides, hand their layout on. Otherwise dimensions are sorted by the strides of the first
    operand that tells two of them apart (a broadcast one does not), and the output is dense.
    """
    first = operands[0]
    same = all(t.shape == first.shape for t in operands)
    shape: Sequence[int] = first.shape if same else broadcast_shapes(*(t.shape for t in operands))
    if all(t.is_contiguous() and (same or _falls(t.stride())) for t in operands):
        return Layout(shape)
    if same:
        if len(shape) == 4 and all(t.is_contiguous(memory_format=torch.channels_last) for t in operands):
            return Layout(shape, _dense(shape, (1, 3, 2, 0)))
        strides = first.stride()
        if all(t.stride() == strides for t in operands) and is_dense(first):
            return Layout(shape, strides)
    order = _sorted(shape, [_broadcast_strides(t, shape) for t in operands])
    return Layout(shape, None if _falls(order) else _dense(shape, order))


def empty_pointwise(*operands: torch.Tensor) -> torch.Tensor:
    """Memory for the output of an elementwise op, of the dtype of the first operand."""
    return pointwise(*operands).empty(operands[0])


def images(shape: Sequence[int], *sources: torch.Tensor) -> Layout:
    """The layout of an output of `shape` (N, C, H, W) or (N, C, D, H, W): channels last if a source is."""
    for tensor in sources:
        if is_channels_last(tensor):
            return Layout(shape, _dense(shape, (1, *range(len(shape) - 1, 1, -1), 0)))
    return Layout(shape)


def memory_format(*sources: torch.Tensor) -> torch.memory_format:
    """The one of `images`, for a gradient that is row-major: `grad.contiguous(memory_format=...)`."""
    for tensor in sources:
        if is_channels_last(tensor):
            return torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
    return torch.contiguous_format


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether the strides of a tensor (N, C, H, W) or (N, C, D, H, W) say channels last.

    As torch's suggest_memory_format: strides that both formats have, as those of one pixel
    with one channel, are row-major; they need not be dense.
    """
    strides = tensor.stride()
    if len(strides) not in (4, 5) or strides[1] > strides[-1] or strides[1] == 0:
        return False
    least, shape = 0, tensor.shape
    for d in (1, *range(len(strides) - 1, 1, -1), 0):
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * shape[d] if shape[d] > 1 else strides[d]
    return True


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements are dense in memory and none is another, in any order of dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, n in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def row_major(output: torch.Tensor) -> torch.Tensor:
    """Where a kernel that writes row-major leaves `output`: in it, if that is its layout."""
    return output if output.is_contiguous() else output.new_empty(output.shape)


def stored(result: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """`output`, with the elements of `result`, which is row-major; `result` itself where that is no difference."""
    return result if result is output or result.stride() == output.stride() else output.copy_(result)


def matching(tensor: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The elements of `tensor` in the order in memory of a dense `output` of its shape."""
    if tensor.stride() == output.stride() or (tensor.is_contiguous() and output.is_contiguous()):
        return tensor
    return torch.empty_like(output, dtype=tensor.dtype).copy_(tensor)


def _dense(shape: Sequence[int], inner_first: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor whose dimensions lie in that order."""
    strides, size = [1] * len(shape), 1
    for d in inner_first:
        strides[d] = size
        size *= shape[d]
    return tuple(strides)


def _falls(values: Sequence[int]) -> bool:
    return all(a >= b for a, b in pairwise(values))


def _broadcast_strides(tensor: torch.Tensor, shape: Sequence[int]) -> list[int]:
    """The strides of `tensor.expand(shape)`."""
    lead = len(shape) - tensor.dim()
    own = zip(tensor.shape, shape[lead:], tensor.stride())
    return [0] * lead + [0 if n == 1 and size != 1 else stride for n, size, stride in own]


def _sorted(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """The dimensions from the innermost on: sorted by insertion, as the order is only partial."""

    def is_inside(d: int, other: int) -> bool | None:
        """Whether dimension `d` belongs further inside than `other`; None where nothing decides."""
        for strides in operands:
            a, b = strides[d], strides[other]
            if a == 0 or b == 0:
                continue
            if a != b:
                return a < b
            if shape[d] < shape[other]:
                return True
        return None

    order = list(range(len(shape)))[::-1]
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            inside = is_inside(order[at], order[before])
            if inside is False:
                break
            if inside:
                order[at], order[before] = order[before], order[at]
                at = before
    return order
