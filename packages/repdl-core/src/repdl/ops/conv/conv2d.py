"""conv2d and its two gradients."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check_dim
from repdl.ops.conv._convolution import DOC, Convolution, as_sides, named_padding
from repdl.ops.declare import public
from repdl.registry import as_int, functions as _ops

__all__ = ["conv2d"]


Convolution(2).define()


@public("conv2d", sides=2, doc=DOC)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    contract: ContractLike = None,
) -> Tensor:
    check_dim("conv2d", (3, 4), input=input)
    check_dim("conv2d", 4, weight=weight)
    strides, dilations = (
        as_sides("conv2d", name, value, 2) for name, value in (("stride", stride), ("dilation", dilation))
    )
    groups = as_int("conv2d", "groups", groups)
    batch = input if input.dim() == 4 else input.unsqueeze(0)
    batch, paddings = named_padding("conv2d", batch, weight.shape[2:], strides, padding, dilations)
    output = _ops.conv2d(batch, weight, bias, strides, paddings, dilations, groups, contract)
    return output if input.dim() == 4 else output.squeeze(0)
