"""max_pool1d: max_pool2d of images of height 1."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import check_dim
from repdl.ops.declare import public
from repdl.ops.pooling._windows import DOC
from repdl.ops.pooling.max_pool2d import max_pool2d
from repdl.registry import as_row, computes

__all__ = ["max_pool1d"]


@public("max_pool2d", sides=1, doc=DOC)
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    contract: ContractLike = None,
) -> Tensor | tuple[Tensor, Tensor]:
    op = "max_pool1d"
    check_dim(op, (2, 3), input=input)
    default = stride is None or (isinstance(stride, (list, tuple)) and not stride)
    output = max_pool2d(
        input.unsqueeze(-2),
        as_row(op, "kernel_size", kernel_size, 1),
        None if default else as_row(op, "stride", stride, 1),
        as_row(op, "padding", padding, 0),
        as_row(op, "dilation", dilation, 1),
        ceil_mode,
        return_indices,
        contract=contract,
    )
    return output.squeeze(-2) if isinstance(output, Tensor) else (output[0].squeeze(-2), output[1].squeeze(-2))


computes("max_pool1d_with_indices", given={"return_indices": True})(max_pool1d)
