"""Unfold and Fold."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class Unfold(Layer, torch.nn.Unfold):
    """Windows as columns: `(N, C, H, W)` to `(N, C * KH * KW, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.Unfold`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the padded input.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unfold.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, H, W) -> (N, C * KH * KW, L)`."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride, contract=self.contract)


class Fold(Layer, torch.nn.Fold):
    """The sum of windows where they overlap: `(N, C * KH * KW, L)` to `(N, C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.Fold`, and keyword `contract`.

    Raises:
        ShapeError: if the input is not of the size that the options say.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Fold.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C * KH * KW, L) -> (N, C, H, W)`."""
        return F.fold(
            input,
            self.output_size,
            self.kernel_size,
            self.dilation,
            self.padding,
            self.stride,
            contract=self.contract,
        )


__all__ = ["Fold", "Unfold"]
