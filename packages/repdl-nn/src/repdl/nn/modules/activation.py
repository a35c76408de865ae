"""Activations, Softmax and LogSoftmax."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class ReLU(Layer, torch.nn.ReLU):
    """`max(input, 0)`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.ReLU`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.relu(input, inplace=self.inplace)


class Hardswish(Layer, torch.nn.Hardswish):
    """`input * clamp(input + 3, 0, 6) / 6`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Hardswish`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardswish.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.hardswish(input, self.inplace)


class Softmax(Layer, torch.nn.Softmax):
    """`exp(input) / sum(exp(input))` over `dim`, any shape, float32 or halves.

    Arguments are those of `torch.nn.Softmax`, and keyword `contract`. `dim=None` is
    torch's old rule: dimension 0 of inputs of 0, 1 and 3 dimensions, 1 of others.

    Raises:
        ShapeError: if the input has no dimension `dim`.
        DTypeError: if the dtype is not that of the contract.

    Contract: softmax v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.softmax(input, _dim(self.dim, input), contract=self.contract)


class LogSoftmax(Layer, torch.nn.LogSoftmax):
    """`input - log(sum(exp(input)))` over `dim`, any shape, float32 or halves.

    Arguments are those of `torch.nn.LogSoftmax`, and keyword `contract`. `dim=None` is
    torch's old rule: dimension 0 of inputs of 0, 1 and 3 dimensions, 1 of others.

    Raises:
        ShapeError: if the input has no dimension `dim`.
        DTypeError: if the dtype is not that of the contract.

    Contract: softmax v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LogSoftmax.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.log_softmax(input, _dim(self.dim, input), contract=self.contract)


def _dim(dim: int | None, input: torch.Tensor) -> int:
    if dim is None:
        return 0 if input.dim() in (0, 1, 3) else 1
    return dim


__all__ = ["Hardswish", "LogSoftmax", "ReLU", "Softmax"]
