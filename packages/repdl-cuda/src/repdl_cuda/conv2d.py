"""Glue of conv2d and its gradients: contiguous operands and one list of sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import layout
from repdl.contract import Contract
from repdl_cuda.native import native, stream, workspace

TILE = 0
"""The tile that kernels use; 0 lets them choose. For tests: no bit depends on it."""


def _run(
    op: str,
    output: torch.Tensor,
    operands: Sequence[torch.Tensor | None],
    input: Sequence[int],
    grad: Sequence[int],
    kernel: Sequence[int],
    options: tuple[Sequence[int], Sequence[int], Sequence[int], int],
    contract: str,
) -> torch.Tensor:
    """Computes `output`; `input` and `grad` are the shapes of the convolution's input and output."""
    stride, padding, dilation, groups = options
    sizes = [*input, *grad[1:], *kernel, *stride, *padding, *dilation, groups]
    functions, where = native(output), stream(output)
    last = Contract.parse(contract).dot_chunk, TILE, where
    work = workspace(output, getattr(functions, f"{op}_work")(sizes, *last))
    contiguous = [None if x is None else x.contiguous() for x in operands]
    addresses = [0 if x is None else x.data_ptr() for x in contiguous]
    getattr(functions, op)(*addresses, output.data_ptr(), work.data_ptr(), sizes, *last)
    return output


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
    rows, kernel, options = layout.row_major(output), weight.shape[2:], (stride, padding, dilation, groups)
    _run("conv2d", rows, (input, weight, bias), input.shape, output.shape, kernel, options, contract)
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
    output = grad.new_empty((grad.shape[0], weight.shape[1] * groups, *input_size))
    kernel, options = weight.shape[2:], (stride, padding, dilation, groups)
    return _run("conv2d_grad_input", output, (grad, weight), output.shape, grad.shape, kernel, options, contract)


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
    output = grad.new_empty((grad.shape[1], input.shape[1] // groups, *kernel_size))
    options = stride, padding, dilation, groups
    return _run("conv2d_grad_weight", output, (grad, input), input.shape, grad.shape, kernel_size, options, contract)


OPS = {"conv2d": conv2d, "conv2d_grad_input": conv2d_grad_input, "conv2d_grad_weight": conv2d_grad_weight}
