"""Linear."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Affine


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


__all__ = ["Linear"]
