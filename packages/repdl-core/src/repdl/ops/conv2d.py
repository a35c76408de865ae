"""conv2d and its two gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl import layout, registry
from repdl.autocast import LOWER
from repdl.contract import Contract, contract_name
from repdl.dtypes import Dtypes
from repdl.errors import as_int, check_dim, check_size, check_tensor, check_tensor_or_none
from repdl.ops._convolution import as_sides, check_geometry, check_options, named_padding, output_size
from repdl.replay import replayed

__all__ = ["conv2d"]


def _check_geometry(input_shape: Sequence[int], weight_shape: Sequence[int], *options: Any) -> list[int]:
    return check_geometry("conv2d", input_shape, weight_shape, *options)


def _check(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> None:
    check_dim("conv2d", 4, input=input, weight=weight)
    check_dim("conv2d", 1, bias=bias)
    _check_geometry(input.shape, weight.shape, stride, padding, dilation, groups)
    if bias is not None:
        check_size("conv2d", "bias.shape[0]", bias.shape[0], weight.shape[0], "weight.shape[0], out_channels")


def _fake(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> torch.Tensor:
    sides = [output_size(input.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i]) for i in (0, 1)]
    return layout.images((input.shape[0], weight.shape[0], *sides), input, weight).empty(input)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, weight, _bias, *ctx.options = inputs
    ctx.format = layout.memory_format(input, weight)
    ctx.save_for_backward(input, weight)


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    input, weight = ctx.saved_tensors
    grad_input = grad_weight = grad_bias = None
    if ctx.needs_input_grad[0]:
        grad_input = _grad_input(grad, weight, input.shape[2:], *ctx.options).contiguous(memory_format=ctx.format)
    if ctx.needs_input_grad[1]:
        grad_weight = _grad_weight(grad, input, weight.shape[2:], *ctx.options).contiguous(memory_format=ctx.format)
    if ctx.needs_input_grad[2]:
        grad_bias = registry.functions.sum(grad, [0, 2, 3], False, ctx.options[-1])
    return grad_input, grad_weight, grad_bias, None, None, None, None, None


_op = registry.define(
    "conv2d",
    "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
    "int groups, str contract) -> Tensor",
    check=_check,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    autocast=LOWER,
    dtypes=Dtypes(),
)


def _check_grad_input(
    grad: torch.Tensor,
    weight: torch.Tensor,
    input_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> None:
    check_dim("conv2d_grad_input", 4, grad=grad, weight=weight)
    input_shape = [grad.shape[0], weight.shape[1] * groups, *input_size]
    expected = _check_geometry(input_shape, weight.shape, stride, padding, dilation, groups)
    check_size("conv2d_grad_input", "grad.shape", list(grad.shape), expected, "the output shape of conv2d")


def _fake_grad_input(
    grad: torch.Tensor, weight: torch.Tensor, input_size: Sequence[int], *options: Any
) -> torch.Tensor:
    groups = options[3]
    return grad.new_empty((grad.shape[0], weight.shape[1] * groups, *input_size))


def _setup_gradient(ctx: Any, inputs: Any, output: Any) -> None:
    grad, other, _, *ctx.options = inputs
    ctx.save_for_backward(grad, other)


def _backward_grad_input(ctx: Any, grad_grad: torch.Tensor) -> Any:
    grad, weight = ctx.saved_tensors
    to_grad = to_weight = None
    if ctx.needs_input_grad[0]:
        to_grad = _op(grad_grad, weight, None, *ctx.options)
    if ctx.needs_input_grad[1]:
        to_weight = _grad_weight(grad, grad_grad, weight.shape[2:], *ctx.options)
    return to_grad, to_weight, None, None, None, None, None, None


_grad_input = registry.define(
    "conv2d_grad_input",
    "(Tensor grad, Tensor weight, int[] input_size, int[] stride, int[] padding, int[] dilation, "
    "int groups, str contract) -> Tensor",
    check=_check_grad_input,
    fake=_fake_grad_input,
    setup_context=_setup_gradient,
    backward=_backward_grad_input,
    dtypes=Dtypes(),
    family="conv2d",
)


def _check_grad_weight(
    grad: torch.Tensor,
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> None:
    check_dim("conv2d_grad_weight", 4, grad=grad, input=input)
    check_options("conv2d", 2, stride, padding, dilation, groups)
    weight_shape = [grad.shape[1], input.shape[1] // groups, *kernel_size]
    expected = _check_geometry(input.shape, weight_shape, stride, padding, dilation, groups)
    check_size("conv2d_grad_weight", "grad.shape", list(grad.shape), expected, "the output shape of conv2d")


def _fake_grad_weight(
    grad: torch.Tensor, input: torch.Tensor, kernel_size: Sequence[int], *options: Any
) -> torch.Tensor:
    groups = options[3]
    return grad.new_empty((grad.shape[1], input.shape[1] // groups, *kernel_size))


def _backward_grad_weight(ctx: Any, grad_grad: torch.Tensor) -> Any:
    grad, input = ctx.saved_tensors
    to_grad = to_input = None
    if ctx.needs_input_grad[0]:
        to_grad = _op(input, grad_grad, None, *ctx.options)
    if ctx.needs_input_grad[1]:
        to_input = _grad_input(grad, grad_grad, input.shape[2:], *ctx.options)
    return to_grad, to_input, None, None, None, None, None, None


_grad_weight = registry.define(
    "conv2d_grad_weight",
    "(Tensor grad, Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
    "int groups, str contract) -> Tensor",
    check=_check_grad_weight,
    fake=_fake_grad_weight,
    setup_context=_setup_gradient,
    backward=_backward_grad_weight,
    dtypes=Dtypes(),
    family="conv2d",
)


@replayed
def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """2-D convolution: `(N, C, H, W), (O, C / groups, KH, KW) -> (N, O, OH, OW)`, any floating-point dtype.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (O, C / groups, KH, KW).
        bias: (O) or None.
        stride, dilation: one integer or (height, width).
        padding: zeros on each side, one integer or (height, width); 'valid' is 0, 'same'
            keeps the size (stride 1), an odd zero going to the end of the side.

    Raises:
        ShapeError: if channels, groups, bias or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html
    """
    check_tensor("conv2d", input=input, weight=weight)
    check_tensor_or_none("conv2d", bias=bias)
    check_dim("conv2d", (3, 4), input=input)
    check_dim("conv2d", 4, weight=weight)
    strides, dilations = (
        as_sides("conv2d", name, value, 2) for name, value in (("stride", stride), ("dilation", dilation))
    )
    groups = as_int("conv2d", "groups", groups)
    name = contract_name(contract)
    batch = input if input.dim() == 4 else input.unsqueeze(0)
    batch, paddings = named_padding("conv2d", batch, weight.shape[2:], strides, padding, dilations)
    output = _op(batch, weight, bias, strides, paddings, dilations, groups, name)
    return output if input.dim() == 4 else output.squeeze(0)
