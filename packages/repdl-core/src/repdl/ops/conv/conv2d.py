"""conv2d and its two gradients."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_dim
from repdl.ops.conv._convolution import DOC, Convolution, as_sides, named_padding
from repdl.ops.declare import public
from repdl.registry import LOWER, as_int, define

__all__ = ["conv2d"]


_of = Convolution(2)
_op = define(
    "conv2d",
    "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
    "int groups, str contract) -> Tensor",
    check=_of.check,
    fake=_of.fake,
    setup_context=_of.setup_context,
    backward=_of.backward,
    autocast=LOWER,
    dtypes=Dtypes(),
)
define(
    "conv2d_grad_input",
    "(Tensor grad, Tensor weight, int[] input_size, int[] stride, int[] padding, int[] dilation, "
    "int groups, str contract) -> Tensor",
    check=_of.check_grad_input,
    fake=_of.fake_grad_input,
    setup_context=_of.setup_gradient,
    backward=_of.backward_grad_input,
    dtypes=Dtypes(),
    family="conv2d",
)
define(
    "conv2d_grad_weight",
    "(Tensor grad, Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
    "int groups, str contract) -> Tensor",
    check=_of.check_grad_weight,
    fake=_of.fake_grad_weight,
    setup_context=_of.setup_gradient,
    backward=_of.backward_grad_weight,
    dtypes=Dtypes(),
    family="conv2d",
)


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
    output = _op(batch, weight, bias, strides, paddings, dilations, groups, contract)
    return output if input.dim() == 4 else output.squeeze(0)
