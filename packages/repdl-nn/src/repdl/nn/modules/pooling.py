"""MaxPool2d."""

from __future__ import annotations

from typing import Any

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class MaxPool2d(Layer, torch.nn.MaxPool2d):
    """Maximum of each window: `(N, C, H, W)` or `(C, H, W)` to the same with OH, OW, any floating-point dtype.

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


__all__ = ["MaxPool2d"]
