"""Glue of conv2d and its gradients: contiguous operands and one list of sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import layout
from repdl.config import get_num_threads
from repdl.contract import Contract
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native


def _sizes(
    input: Sequence[int],
    output: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> list[int]:
    return [*input, *output[1:], *kernel, *stride, *padding, *dilation, groups]


def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> torch.Tensor:
    output = layout.outputs("conv2d")(input, weight, bias, stride, padding, dilation, groups, contract)
    rows = huge_pages(layout.row_major(output))
    input, weight = input.contiguous(), weight.contiguous()
    bias = None if bias is None else bias.contiguous()
    native(input.dtype).conv2d(
        input.data_ptr(),
        weight.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        rows.data_ptr(),
        _sizes(input.shape, output.shape, weight.shape[2:], stride, padding, dilation, groups),
        Contract.parse(contract).dot_chunk,
        get_num_threads(),
    )
    return layout.stored(rows, output)


def conv2d_grad_input(
    grad: torch.Tensor,
    weight: torch.Tensor,
    input_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> torch.Tensor:
    output = huge_pages(grad.new_empty((grad.shape[0], weight.shape[1] * groups, *input_size)))
    grad, weight = grad.contiguous(), weight.contiguous()
    native(grad.dtype).conv2d_grad_input(
        grad.data_ptr(),
        weight.data_ptr(),
        output.data_ptr(),
        _sizes(output.shape, grad.shape, weight.shape[2:], stride, padding, dilation, groups),
        Contract.parse(contract).dot_chunk,
        get_num_threads(),
    )
    return output


def conv2d_grad_weight(
    grad: torch.Tensor,
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    contract: str,
) -> torch.Tensor:
    output = huge_pages(grad.new_empty((grad.shape[1], input.shape[1] // groups, *kernel_size)))
    grad, input = grad.contiguous(), input.contiguous()
    native(grad.dtype).conv2d_grad_weight(
        grad.data_ptr(),
        input.data_ptr(),
        output.data_ptr(),
        _sizes(input.shape, grad.shape, kernel_size, stride, padding, dilation, groups),
        Contract.parse(contract).dot_chunk,
        get_num_threads(),
    )
    return output


OPS = {"conv2d": conv2d, "conv2d_grad_input": conv2d_grad_input, "conv2d_grad_weight": conv2d_grad_weight}
