"""Pooling."""

from __future__ import annotations

from typing import Any

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer

Tensor = torch.Tensor


class AvgPool1d(Layer, torch.nn.AvgPool1d):
    """Mean of each window: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool1d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, L) -> (N, C, OL)`."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            contract=self.contract,
        )


class AdaptiveAvgPool1d(Layer, torch.nn.AdaptiveAvgPool1d):
    """Mean of each of `output_size` windows: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool1d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, L) -> (N, C, OL)`."""
        return F.adaptive_avg_pool1d(input, self.output_size, contract=self.contract)


class LPPool1d(Layer, torch.nn.LPPool1d):
    """The p-norm of each window, p = `norm_type`: `(N, C, L)` or `(C, L)`, float32, bfloat16 and float16.

    Arguments are those of `torch.nn.LPPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool1d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, L) -> (N, C, OL)`."""
        size: Any = self.kernel_size
        step: Any = self.stride
        return F.lp_pool1d(input, float(self.norm_type), size, step, self.ceil_mode, contract=self.contract)


class MaxPool1d(Layer, torch.nn.MaxPool1d):
    """Maximum of each window: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool1d`, and keyword `contract`, of which no bit depends here.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool1d.html
    """

    def forward(self, input: Tensor) -> Any:
        """`(N, C, L) -> (N, C, OL)`, and the indices if `return_indices`."""
        return F.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class AdaptiveMaxPool1d(Layer, torch.nn.AdaptiveMaxPool1d):
    """Maximum of each of `output_size` windows: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveMaxPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool1d.html
    """

    def forward(self, input: Tensor) -> Any:
        """`(N, C, L) -> (N, C, OL)`, and the indices if `return_indices`."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices, contract=self.contract)


class MaxUnpool1d(Layer, torch.nn.MaxUnpool1d):
    """Maxima back at their places, 0 elsewhere: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxUnpool1d`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes differ, or the output size is none that the options give.
        OutOfRangeError: if an index is none of the output.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool1d.html
    """

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        """`(N, C, L) -> (N, C, OL)`."""
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size, contract=self.contract
        )


class AvgPool2d(Layer, torch.nn.AvgPool2d):
    """Mean of each window: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, H, W) -> (N, C, OH, OW)`."""
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
            contract=self.contract,
        )


class AdaptiveAvgPool2d(Layer, torch.nn.AdaptiveAvgPool2d):
    """Mean of each of `output_size` windows: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, H, W) -> (N, C, OH, OW)`."""
        return F.adaptive_avg_pool2d(input, self.output_size, contract=self.contract)


class LPPool2d(Layer, torch.nn.LPPool2d):
    """The p-norm of each window, p = `norm_type`: `(N, C, H, W)` or `(C, H, W)`, float32, bfloat16 and float16.

    Arguments are those of `torch.nn.LPPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool2d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, H, W) -> (N, C, OH, OW)`."""
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode, contract=self.contract
        )


class MaxPool2d(Layer, torch.nn.MaxPool2d):
    """Maximum of each window: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool2d`, and keyword `contract`, of which no bit depends here.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """

    def forward(self, input: Tensor) -> Any:
        """`(N, C, H, W) -> (N, C, OH, OW)`, and the indices if `return_indices`."""
        return F.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class AdaptiveMaxPool2d(Layer, torch.nn.AdaptiveMaxPool2d):
    """Maximum of each of `output_size` windows: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveMaxPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html
    """

    def forward(self, input: Tensor) -> Any:
        """`(N, C, H, W) -> (N, C, OH, OW)`, and the indices if `return_indices`."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices, contract=self.contract)


class MaxUnpool2d(Layer, torch.nn.MaxUnpool2d):
    """Maxima back at their places, 0 elsewhere: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxUnpool2d`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes differ, or the output size is none that the options give.
        OutOfRangeError: if an index is none of the output.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html
    """

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        """`(N, C, H, W) -> (N, C, OH, OW)`."""
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size, contract=self.contract
        )


class AvgPool3d(Layer, torch.nn.AvgPool3d):
    """Mean of each window: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool3d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, D, H, W) -> (N, C, OD, OH, OW)`."""
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
            contract=self.contract,
        )


class AdaptiveAvgPool3d(Layer, torch.nn.AdaptiveAvgPool3d):
    """Mean of each of `output_size` windows: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool3d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, D, H, W) -> (N, C, OD, OH, OW)`."""
        return F.adaptive_avg_pool3d(input, self.output_size, contract=self.contract)


class LPPool3d(Layer, torch.nn.LPPool3d):
    """The p-norm of each window, p = `norm_type`: `(N, C, D, H, W)` or `(C, D, H, W)`, float32, bfloat16 and float16.

    Arguments are those of `torch.nn.LPPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool3d.html
    """

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, D, H, W) -> (N, C, OD, OH, OW)`."""
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode, contract=self.contract
        )


class MaxPool3d(Layer, torch.nn.MaxPool3d):
    """Maximum of each window: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool3d`, and keyword `contract`, of which no bit depends here.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool3d.html
    """

    def forward(self, input: Tensor) -> Any:
        """`(N, C, D, H, W) -> (N, C, OD, OH, OW)`, and the indices if `return_indices`."""
        return F.max_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class AdaptiveMaxPool3d(Layer, torch.nn.AdaptiveMaxPool3d):
    """Maximum of each of `output_size` windows: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveMaxPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool3d.html
    """

    def forward(self, input: Tensor) -> Any:
        """`(N, C, D, H, W) -> (N, C, OD, OH, OW)`, and the indices if `return_indices`."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices, contract=self.contract)


class MaxUnpool3d(Layer, torch.nn.MaxUnpool3d):
    """Maxima back at their places, 0 elsewhere: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxUnpool3d`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes differ, or the output size is none that the options give.
        OutOfRangeError: if an index is none of the output.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool3d.html
    """

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        """`(N, C, D, H, W) -> (N, C, OD, OH, OW)`."""
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size, contract=self.contract
        )


__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]
