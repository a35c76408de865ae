"""max_pool3d: max_pool2d of each image, then of the images along the depth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check, check_dim
from repdl.ops.declare import public
from repdl.ops.pooling._windows import DOC, per_side, strides
from repdl.ops.pooling.max_pool2d import max_pool2d
from repdl.registry import computes

__all__ = ["max_pool3d"]


Ints = int | Sequence[int]


@public("max_pool2d", sides=3, doc=DOC)
def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor | tuple[Tensor, Tensor]:
    op = "max_pool3d"
    check_dim(op, (4, 5), input=input)
    kernel = per_side(op, "kernel_size", kernel_size, 3)
    steps, padded = strides(op, stride, kernel), per_side(op, "padding", padding, 3)
    dilations = per_side(op, "dilation", dilation, 3)
    check(op, all(input.shape[-4:]), lambda: f"input.shape is {tuple(input.shape)}, expected 0 for the batch only")
    depth, height, width = input.shape[-3:]
    planes = input.reshape(math.prod(input.shape[:-3]), depth, height, width)
    images, at = max_pool2d(planes, kernel[1:], steps[1:], padded[1:], dilations[1:], ceil_mode, True)
    rows, columns = images.shape[-2:]
    stacks = images.flatten(2).unsqueeze(1)  # (N * C, 1, D, OH * OW)
    largest, plane = max_pool2d(
        stacks, (kernel[0], 1), (steps[0], 1), (padded[0], 0), (dilations[0], 1), ceil_mode, True
    )
    shape = (*input.shape[:-3], largest.shape[-2], rows, columns)
    if not return_indices:
        return largest.reshape(shape)
    # `plane` counts elements (depth, OH * OW): the depth, and in its image the index that was the maximum there.
    inner = at.flatten(1).gather(1, plane.flatten(1)).view(plane.shape)
    return largest.reshape(shape), (plane // (rows * columns) * (height * width) + inner).reshape(shape)


computes("max_pool3d_with_indices", given={"return_indices": True})(max_pool3d)
