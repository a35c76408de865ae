"""Activations: functions of an element, and of the two halves of a tensor."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class ReLU(Layer, torch.nn.ReLU):
    """`max(input, 0)`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.ReLU`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.relu(input, inplace=self.inplace)


class Hardswish(Layer, torch.nn.Hardswish):
    """`input * clamp(input + 3, 0, 6) / 6`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Hardswish`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardswish.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.hardswish(input, self.inplace)


class ELU(Layer, torch.nn.ELU):
    """`input` where it is above 0, else `alpha * expm1(input)`, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.ELU`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ELU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.elu(input, self.alpha, self.inplace)


class GELU(Layer, torch.nn.GELU):
    """`input * Phi(input)`, or its approximation by tanh, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.GELU`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GELU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.gelu(input, self.approximate)


class Hardsigmoid(Layer, torch.nn.Hardsigmoid):
    """`clamp(input + 3, 0, 6) / 6`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Hardsigmoid`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardsigmoid.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.hardsigmoid(input, self.inplace)


class LeakyReLU(Layer, torch.nn.LeakyReLU):
    """`input` where it is above 0, else `negative_slope * input`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.LeakyReLU`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class SiLU(Layer, torch.nn.SiLU):
    """`input * sigmoid(input)`, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.SiLU`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SiLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.silu(input, self.inplace)


class Sigmoid(Layer, torch.nn.Sigmoid):
    """`1 / (1 + exp(-input))`, correctly rounded, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.Sigmoid`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Sigmoid.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.sigmoid(input)


class Softplus(Layer, torch.nn.Softplus):
    """`log1p(exp(beta * input)) / beta`, `input` where `beta * input` is above `threshold`.

    Any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.Softplus`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softplus.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.softplus(input, self.beta, self.threshold)


class Tanh(Layer, torch.nn.Tanh):
    """Hyperbolic tangent, correctly rounded, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.Tanh`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: elementwise v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Tanh.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.tanh(input)


class CELU(Layer, torch.nn.CELU):
    """`input` where it is above 0, else `alpha * expm1(input / alpha)`, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.CELU`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CELU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.celu(input, self.alpha, self.inplace)


class GLU(Layer, torch.nn.GLU):
    """`a * sigmoid(b)`, a and b the halves along `dim`, of an even size, float32 or 16-bit floats.

    Arguments are those of `torch.nn.GLU`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if the input has no dimension `dim`, or its size is odd.
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(..., 2 N, ...) -> (..., N, ...)`."""
        return F.glu(input, self.dim, contract=self.contract)


class Hardshrink(Layer, torch.nn.Hardshrink):
    """0 where `-lambd <= input <= lambd`, else `input`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Hardshrink`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardshrink.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.hardshrink(input, self.lambd)


class Hardtanh(Layer, torch.nn.Hardtanh):
    """`input`, or the bound that it is beyond, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Hardtanh`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardtanh.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class LogSigmoid(Layer, torch.nn.LogSigmoid):
    """`log(sigmoid(input))` without its underflow, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.LogSigmoid`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LogSigmoid.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.logsigmoid(input)


class Mish(Layer, torch.nn.Mish):
    """`input * tanh(softplus(input))`, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.Mish`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Mish.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.mish(input, self.inplace)


class PReLU(Layer, torch.nn.PReLU):
    """`input` where it is above 0, else `weight * input`, a weight or one a channel, any floating-point dtype.

    Arguments are those of `torch.nn.PReLU`, and keyword `contract`.

    Raises:
        ShapeError: if the channels are not those of the weight.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.PReLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.prelu(input, self.weight, contract=self.contract)


class RReLU(Layer, torch.nn.RReLU):
    """`input` where it is above 0, else times a slope, drawn in training, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.RReLU`, and keywords `generator`, whose numbers are drawn
    in training (None: the default one), and `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.RReLU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.rrelu(
            input, self.lower, self.upper, self.training, self.inplace, generator=self.generator, contract=self.contract
        )


class ReLU6(Layer, torch.nn.ReLU6):
    """`min(max(input, 0), 6)`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.ReLU6`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU6.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class SELU(Layer, torch.nn.SELU):
    """`scale * elu(input, alpha)` with the constants that keep mean 0 and variance 1, any shape.

    float32 or 16-bit floats.

    Arguments are those of `torch.nn.SELU`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SELU.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.selu(input, self.inplace)


class Softshrink(Layer, torch.nn.Softshrink):
    """`input` by `lambd` nearer to 0, or 0, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Softshrink`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softshrink.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.softshrink(input, self.lambd)


class Softsign(Layer, torch.nn.Softsign):
    """`input / (1 + |input|)`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Softsign`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softsign.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.softsign(input)


class Tanhshrink(Layer, torch.nn.Tanhshrink):
    """`input - tanh(input)`, any shape, float32 or 16-bit floats.

    Arguments are those of `torch.nn.Tanhshrink`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Tanhshrink.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.tanhshrink(input)


class Threshold(Layer, torch.nn.Threshold):
    """`input` where it is above `threshold`, else `value`, any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Threshold`, and keyword `contract`, which changes no bit here.

    Raises:
        DTypeError: if the dtype is not that of the contract.

    Contract: activation v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Threshold.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]
