"""Conv2d."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.init import reset_affine
from repdl.nn.modules.layer import Layer


class Conv2d(Layer, torch.nn.Conv2d):
    """2-D convolution: `(N, C, H, W)` or `(C, H, W)` to `(N, O, OH, OW)` or `(O, OH, OW)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.Conv2d`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if channels or kernel do not fit the input.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    """

    def reset_parameters(self) -> None:
        """Draw weight and bias (see `Layer`)."""
        generator = self._draws()
        if generator is None:
            super().reset_parameters()
        else:
            reset_affine(self.weight, self.bias, generator)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, H, W) -> (N, O, OH, OW)`."""
        padding: str | tuple[int, ...] = self.padding
        if self.padding_mode != "zeros":
            # Movement of data only; its gradient adds, and is therefore an op of the contract.
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0, 0)
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


__all__ = ["Conv2d"]
