"""Pooling."""

from __future__ import annotations

from typing import Any

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class AdaptiveAvgPool1d(Layer, torch.nn.AdaptiveAvgPool1d):
    """Mean of each of `output_size` windows: `(N, C, L)` or `(C, L)` to the same with OL, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool1d`, and keyword `contract`.

    Raises:
        UnsupportedError: for an output size that does not divide the input's.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool1d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, L) -> (N, C, OL)`."""
        return F.adaptive_avg_pool1d(input, self.output_size, contract=self.contract)


class AdaptiveAvgPool2d(Layer, torch.nn.AdaptiveAvgPool2d):
    """Mean of each of `output_size` windows: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool2d`, and keyword `contract`.

    Raises:
        UnsupportedError: for an output size that does not divide the input's.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, H, W) -> (N, C, OH, OW)`."""
        return F.adaptive_avg_pool2d(input, self.output_size, contract=self.contract)


class AvgPool1d(Layer, torch.nn.AvgPool1d):
    """Mean of each window: `(N, C, L)` or `(C, L)` to the same with OL, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool1d`, and keyword `contract`.

    Raises:
        UnsupportedError: for windows that overlap, leave gaps, reach into padding or are cut off.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool1d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
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


class AvgPool2d(Layer, torch.nn.AvgPool2d):
    """Mean of each window: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool2d`, and keyword `contract`.

    Raises:
        UnsupportedError: for windows that overlap, leave gaps, reach into padding or are cut off.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
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


class MaxPool1d(Layer, torch.nn.MaxPool1d):
    """Maximum of each window: `(N, C, L)` or `(C, L)` to the same with OL, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool1d`, and keyword `contract`, of which no bit depends here.

    Raises:
        ShapeError: if the window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool1d.html
    """

    def forward(self, input: torch.Tensor) -> Any:
        """`(N, C, L) -> (N, C, OL)`, and the indices if `return_indices`."""
        return F.max_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxPool2d(Layer, torch.nn.MaxPool2d):
    """Maximum of each window: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool2d`, and keyword `contract`, of which no bit depends here.

    Raises:
        ShapeError: if the window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """

    def forward(self, input: torch.Tensor) -> Any:
        """`(N, C, H, W) -> (N, C, OH, OW)`, and the indices if `return_indices`."""
        return F.max_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d"]
