"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.modules.conv import _ConvNd

from repdl.nn import functional as F
from repdl.nn.modules.layer import Affine


class _ReproducibleConv(Affine, _ConvNd):
    def _padded(self, input: torch.Tensor) -> tuple[torch.Tensor, str | Sequence[int]]:
        """The input, padded where the mode is not zeros, and the padding that is left to the convolution."""
        if self.padding_mode == "zeros":
            return input, self.padding
        # Movement of data only; its gradient adds, and is therefore an op of the contract.
        return F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), (0,) * len(self.kernel_size)


class Conv1d(_ReproducibleConv, torch.nn.Conv1d):
    """1-D convolution: `(N, C, L)` or `(C, L)` to `(N, O, OL)` or `(O, OL)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.Conv1d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv1d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, L) -> (N, O, OL)`."""
        input, padding = self._padded(input)
        return F.conv1d(
            input,
            self.weight,
            self.bias,
            self.stride,
            padding,
            self.dilation,
            self.groups,
            contract=self.contract,
        )


class Conv2d(_ReproducibleConv, torch.nn.Conv2d):
    """2-D convolution: `(N, C, H, W)` or `(C, H, W)` to `(N, O, OH, OW)` or `(O, OH, OW)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.Conv2d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, H, W) -> (N, O, OH, OW)`."""
        input, padding = self._padded(input)
        return F.conv2d(
            input,
            self.weight,
            self.bias,
            self.stride,
            padding,
            self.dilation,
            self.groups,
            contract=self.contract,
        )


class ConvTranspose1d(_ReproducibleConv, torch.nn.ConvTranspose1d):
    """Transposed 1-D convolution: `(N, C, L)` or `(C, L)` to the same with O, OL, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.ConvTranspose1d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose1d.html
    """

    def forward(self, input: torch.Tensor, output_size: Sequence[int] | None = None) -> torch.Tensor:
        """`(N, C, L) -> (N, O, OL)`, of `output_size` where that is given."""
        output_padding = self._output_padding(
            input,
            output_size,  # type: ignore[arg-type]
            self.stride,  # type: ignore[arg-type]
            self.padding,  # type: ignore[arg-type]
            self.kernel_size,  # type: ignore[arg-type]
            1,
            self.dilation,  # type: ignore[arg-type]
        )
        return F.conv_transpose1d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,  # type: ignore[arg-type]
            output_padding,
            self.groups,
            self.dilation,
            contract=self.contract,
        )


class ConvTranspose2d(_ReproducibleConv, torch.nn.ConvTranspose2d):
    """Transposed 2-D convolution: `(N, C, H, W)` or `(C, H, W)` to the same with O, OH, OW, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.ConvTranspose2d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html
    """

    def forward(self, input: torch.Tensor, output_size: Sequence[int] | None = None) -> torch.Tensor:
        """`(N, C, H, W) -> (N, O, OH, OW)`, of `output_size` where that is given."""
        output_padding = self._output_padding(
            input,
            output_size,  # type: ignore[arg-type]
            self.stride,  # type: ignore[arg-type]
            self.padding,  # type: ignore[arg-type]
            self.kernel_size,  # type: ignore[arg-type]
            2,
            self.dilation,  # type: ignore[arg-type]
        )
        return F.conv_transpose2d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,  # type: ignore[arg-type]
            output_padding,
            self.groups,
            self.dilation,
            contract=self.contract,
        )


__all__ = ["Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"]
