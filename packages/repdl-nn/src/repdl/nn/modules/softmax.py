"""Softmax and its relatives."""

from __future__ import annotations

import torch

from repdl.errors import check_dim
from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class Softmax(Layer, torch.nn.Softmax):
    """`exp(input) / sum(exp(input))` over `dim`, any shape, float32 or 16-bit floats.

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
    """`input - log(sum(exp(input)))` over `dim`, any shape, float32 or 16-bit floats.

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


class Softmin(Layer, torch.nn.Softmin):
    """`exp(-input) / sum(exp(-input))` over `dim`, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.Softmin`, and keyword `contract`.
    `dim=None` is as in `Softmax`.

    Raises:
        ShapeError: if the input has no dimension `dim`.
        DTypeError: if the dtype is not that of the contract.

    Contract: softmax v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmin.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.softmin(input, _dim(self.dim, input), contract=self.contract)


class Softmax2d(Layer, torch.nn.Softmax2d):
    """Softmax over the channels of `(N, C, H, W)` or `(C, H, W)`, float32 or 16-bit floats.

    Arguments are those of `torch.nn.Softmax2d`, and keyword `contract`.

    Raises:
        ShapeError: if the input has neither three nor four dimensions.
        DTypeError: if the dtype is not that of the contract.

    Contract: softmax v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax2d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        check_dim("Softmax2d", (3, 4), input=input)
        return F.softmax(input, -3, contract=self.contract)


def _dim(dim: int | None, input: torch.Tensor) -> int:
    if dim is None:
        return 0 if input.dim() in (0, 1, 3) else 1
    return dim


__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]
