"""conv1d: conv2d of images of height 1."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check_dim
from repdl.ops.conv._convolution import DOC
from repdl.ops.conv.conv2d import conv2d
from repdl.ops.declare import public
from repdl.registry import as_row

__all__ = ["conv1d"]


@public("conv2d", sides=1, doc=DOC)
def conv1d(
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
    op = "conv1d"
    check_dim(op, (2, 3), input=input)
    check_dim(op, 3, weight=weight)
    return conv2d(
        input.unsqueeze(-2),
        weight.unsqueeze(-2),
        bias,
        as_row(op, "stride", stride, 1),
        padding if isinstance(padding, str) else as_row(op, "padding", padding, 0),
        as_row(op, "dilation", dilation, 1),
        groups,
        contract=contract,
    ).squeeze(-2)
