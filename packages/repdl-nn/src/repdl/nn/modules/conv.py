"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from repdl.nn import functional as F
from repdl.nn.modules.layer import Affine


class _Convolution(Affine, _ConvNd):
    _function: str

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, ...) -> (N, O, ...)`."""
        padding: str | Sequence[int] = self.padding
        if self.padding_mode != "zeros":
            # Movement of data only; its gradient adds, and is therefore an op of the contract.
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * len(self.kernel_size)
        options = (self.stride, padding, self.dilation, self.groups)
        function = getattr(F, self._function)
        return function(input, self.weight, self.bias, *options, contract=self.contract)


class _TransposedConvolution(Affine, _ConvTransposeNd):
    _function: str

    def forward(self, input: torch.Tensor, output_size: Sequence[int] | None = None) -> torch.Tensor:
        """`(N, C, ...) -> (N, O, ...)`, of `output_size` where that is given."""
        sizes: Any = (self.stride, self.padding, self.kernel_size)
        dilation: Any = self.dilation
        choose: Any = self._output_padding  # whose types are those of lists
        output_padding = choose(input, output_size, *sizes, len(self.kernel_size), dilation)
        options = (self.stride, self.padding, output_padding, self.groups, self.dilation)
        function = getattr(F, self._function)
        return function(input, self.weight, self.bias, *options, contract=self.contract)


class Conv1d(_Convolution, torch.nn.Conv1d):
    """1-D convolution: `(N, C, L)` or `(C, L)` to `(N, O, OL)` or `(O, OL)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.Conv1d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv1d.html
    """

    _function = "conv1d"


class Conv2d(_Convolution, torch.nn.Conv2d):
    """2-D convolution: `(N, C, H, W)` or `(C, H, W)` to `(N, O, OH, OW)` or `(O, OH, OW)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.Conv2d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    """

    _function = "conv2d"


class Conv3d(_Convolution, torch.nn.Conv3d):
    """3-D convolution: `(N, C, D, H, W)` to `(N, O, OD, OH, OW)`, or both without N, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.Conv3d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv3d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv3d.html
    """

    _function = "conv3d"


class ConvTranspose1d(_TransposedConvolution, torch.nn.ConvTranspose1d):
    """Transposed 1-D convolution: `(N, C, L)` or `(C, L)` to the same with O, OL, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.ConvTranspose1d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose1d.html
    """

    _function = "conv_transpose1d"


class ConvTranspose2d(_TransposedConvolution, torch.nn.ConvTranspose2d):
    """Transposed 2-D convolution: `(N, C, H, W)` or `(C, H, W)` to the same with O, OH, OW, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.ConvTranspose2d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html
    """

    _function = "conv_transpose2d"


class ConvTranspose3d(_TransposedConvolution, torch.nn.ConvTranspose3d):
    """Transposed 3-D convolution: `(N, C, D, H, W)` or `(C, D, H, W)` to the same with O, OD, OH, OW, any dtype.

    Arguments and initialisation are those of `torch.nn.ConvTranspose3d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    """

    _function = "conv_transpose3d"


__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
