"""Activations, Softmax and its relatives."""

from __future__ import annotations

import torch

from repdl.errors import check_dim
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


class ELU(Layer, torch.nn.ELU):
    """`input` where it is above 0, else `alpha * expm1(input)`, any shape, float32 or halves.

    Arguments are those of `torch.nn.ELU`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ELU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.elu(input, self.alpha, self.inplace)


class GELU(Layer, torch.nn.GELU):
    """`input * Phi(input)`, or its approximation by tanh, any shape, float32 or halves.

    Arguments are those of `torch.nn.GELU`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GELU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.gelu(input, self.approximate)


class Hardsigmoid(Layer, torch.nn.Hardsigmoid):
    """`clamp(input + 3, 0, 6) / 6`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Hardsigmoid`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardsigmoid.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.hardsigmoid(input, self.inplace)


class LeakyReLU(Layer, torch.nn.LeakyReLU):
    """`input` where it is above 0, else `negative_slope * input`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.LeakyReLU`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class SiLU(Layer, torch.nn.SiLU):
    """`input * sigmoid(input)`, any shape, float32 or halves.

    Arguments are those of `torch.nn.SiLU`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SiLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.silu(input, self.inplace)


class Sigmoid(Layer, torch.nn.Sigmoid):
    """`1 / (1 + exp(-input))`, correctly rounded, any shape, float32 or halves.

    Arguments are those of `torch.nn.Sigmoid`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Sigmoid.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.sigmoid(input)


class Softplus(Layer, torch.nn.Softplus):
    """`log1p(exp(beta * input)) / beta`, `input` where `beta * input` is above `threshold`.

    Any shape, float32 or halves.

    Arguments are those of `torch.nn.Softplus`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softplus.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.softplus(input, self.beta, self.threshold)


class Tanh(Layer, torch.nn.Tanh):
    """Hyperbolic tangent, correctly rounded, any shape, float32 or halves.

    Arguments are those of `torch.nn.Tanh`, and keyword `contract`, of which no bit depends here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Tanh.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.tanh(input)


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


class Softmin(Layer, torch.nn.Softmin):
    """`exp(-input) / sum(exp(-input))` over `dim`, any shape, float32 or halves.

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
    """Softmax over the channels of `(N, C, H, W)` or `(C, H, W)`, float32 or halves.

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


__all__ = [
    "ELU",
    "GELU",
    "Hardsigmoid",
    "Hardswish",
    "LeakyReLU",
    "LogSoftmax",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Tanh",
]
