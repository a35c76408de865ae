"""Linear and Bilinear."""

from __future__ import annotations

import torch

from repdl.dtypes import rounding
from repdl.nn import functional as F, init
from repdl.nn.modules.layer import Affine, Layer


class Linear(Affine, torch.nn.Linear):
    """`input @ weight.T + bias`: `(..., in_features) -> (..., out_features)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.Linear`, and keywords `contract` and `generator`.

    Raises:
        ShapeError: if the last dimension of the input is not `in_features`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: linear v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(..., in_features) -> (..., out_features)`."""
        return F.linear(input, self.weight, self.bias, contract=self.contract)


class Bilinear(Layer, torch.nn.Bilinear):
    """`input1 @ weight[o] @ input2 + bias[o]`: `(..., in1_features), (..., in2_features) -> (..., out_features)`.

    Any floating-point dtype. Arguments and initialisation are those of `torch.nn.Bilinear`, and keywords `contract`
    and `generator`.

    Raises:
        ShapeError: if the inputs do not fit together, or to the weight.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: bilinear v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Bilinear.html
    """

    def reset_parameters(self) -> None:
        """Draw weight and bias (see `Layer`): uniform in [-b, b), b = 1 / sqrt(in1_features)."""
        generator = self._draws()
        if generator is None:
            super().reset_parameters()
            return
        bound = rounding.div(1.0, rounding.sqrt(float(self.weight.shape[1])))
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, input1: torch.Tensor, input2: torch.Tensor) -> torch.Tensor:
        """`(..., in1_features), (..., in2_features) -> (..., out_features)`."""
        return F.bilinear(input1, input2, self.weight, self.bias, contract=self.contract)


__all__ = ["Bilinear", "Linear"]
