"""conv3d and its two gradients: conv2d of slices in depth, which count as channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_dim
from repdl.ops.conv._convolution import DOC, Convolution, as_sides, named_padding
from repdl.ops.declare import public
from repdl.registry import as_int, functions as _ops

__all__ = ["conv3d"]

Ints = Sequence[int]
_OP = "conv3d"
_of = Convolution(3)


def _as_images(taps: Sequence[Tensor]) -> Tensor:
    """What KD taps see, (N, C, D, H, W) each, as images (N * D, C * KD, H, W), in the orders (n, d) and (c, kd)."""
    n, c, d, *sides = taps[0].shape
    if len(taps) == 1:
        return taps[0].transpose(1, 2).reshape(n * d, c, *sides)
    images = taps[0].new_empty((n, d, c, len(taps), *sides))
    for k, tap in enumerate(taps):
        images[:, :, :, k] = tap.transpose(1, 2)
    return images.view(n * d, c * len(taps), *sides)


def _as_volumes(images: Tensor, batch: int, depth: int) -> Tensor:
    """(N * D, C, H, W) -> (N, C, D, H, W)."""
    return images.reshape(batch, depth, *images.shape[1:]).transpose(1, 2)


def _slices(input: Tensor, kernel: int, count: int, stride: int, padding: int, dilation: int) -> Tensor:
    """What each of `count` positions in depth sees: (N, C, D, H, W) -> (N * count, C * kernel, H, W)."""
    padded = torch.nn.functional.pad(input, (0, 0, 0, 0, padding, padding)) if padding else input
    length = stride * (count - 1) + 1
    return _as_images([padded.narrow(2, k * dilation, length)[:, :, ::stride] for k in range(kernel)])


def _depth(stride: Ints, padding: Ints, dilation: Ints) -> tuple[int, int, int]:
    return stride[0], padding[0], dilation[0]


def _rest(stride: Ints, padding: Ints, dilation: Ints) -> tuple[Ints, Ints, Ints]:
    return list(stride[1:]), list(padding[1:]), list(dilation[1:])


def _formula(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    contract: str,
) -> Tensor:
    made = _of.fake(input, weight, bias, stride, padding, dilation)
    slices = _slices(input, weight.shape[2], made.shape[2], *_depth(stride, padding, dilation))
    kernels = weight.reshape(weight.shape[0], -1, *weight.shape[3:])
    images = _ops.conv2d(slices, kernels, bias, *_rest(stride, padding, dilation), groups, contract)
    return made.copy_(_as_volumes(images, *made.shape[:3:2]))


def _grad_input_formula(
    grad: Tensor,
    weight: Tensor,
    input_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    contract: str,
) -> Tensor:
    """Depths whose taps are the same, those of one remainder by the stride, are the images of one conv2d."""
    step, before, spread = _depth(stride, padding, dilation)
    batch, depth = grad.shape[0], input_size[0]
    output = grad.new_zeros((batch, weight.shape[1] * groups, *input_size))
    for phase in range(min(step, depth)):
        taps = [k for k in range(weight.shape[2]) if (phase + before - k * spread) % step == 0]
        if not taps:
            continue  # +0
        count = (depth - phase + step - 1) // step
        starts = [(phase + before - k * spread) // step for k in taps]
        low, high = max(0, -min(starts)), max(0, max(starts) + count - grad.shape[2])
        padded = torch.nn.functional.pad(grad, (0, 0, 0, 0, low, high))
        seen = [padded.narrow(2, low + start, count) for start in starts]
        kernels = weight[:, :, taps].transpose(1, 2).reshape(-1, weight.shape[1], *weight.shape[3:])
        options = _rest(stride, padding, dilation)
        images = _ops.conv2d_grad_input(_as_images(seen), kernels, list(input_size[1:]), *options, groups, contract)
        output[:, :, phase::step] = _as_volumes(images, batch, count)
    return output


def _grad_weight_formula(
    grad: Tensor,
    input: Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    contract: str,
) -> Tensor:
    slices = _slices(input, kernel_size[0], grad.shape[2], *_depth(stride, padding, dilation))
    images = _as_images([grad])
    options = _rest(stride, padding, dilation)
    found = _ops.conv2d_grad_weight(images, slices, list(kernel_size[1:]), *options, groups, contract)
    return found.reshape(grad.shape[1], input.shape[1] // groups, *kernel_size)


_FORMULAS = (
    (_formula, ("conv2d", "sum")),
    (_grad_input_formula, ("conv2d_grad_input",)),
    (_grad_weight_formula, ("conv2d_grad_weight",)),
)
_of.define(_FORMULAS, Dtypes(keeps_16_bit=True))


@public("conv3d", sides=3, doc=DOC)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Ints = 1,
    padding: str | int | Ints = 0,
    dilation: int | Ints = 1,
    groups: int = 1,
    *,
    contract: ContractLike = None,
) -> Tensor:
    check_dim(_OP, (4, 5), input=input)
    check_dim(_OP, 5, weight=weight)
    strides, dilations = as_sides(_OP, "stride", stride, 3), as_sides(_OP, "dilation", dilation, 3)
    groups = as_int(_OP, "groups", groups)
    batch = input if input.dim() == 5 else input.unsqueeze(0)
    batch, paddings = named_padding(_OP, batch, weight.shape[2:], strides, padding, dilations)
    output = _ops.conv3d(batch, weight, bias, strides, paddings, dilations, groups, contract)
    return output if input.dim() == 5 else output.squeeze(0)
