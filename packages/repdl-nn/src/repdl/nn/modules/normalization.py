"""Norms over the elements of one example: LayerNorm, RMSNorm and GroupNorm."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class GroupNorm(Layer, torch.nn.GroupNorm):
    """Normalisation of groups of channels: `(N, C, ...)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.GroupNorm`, and keyword `contract`.

    Raises:
        ShapeError: if the input has not `num_channels` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: group_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, contract=self.contract)


class LayerNorm(Layer, torch.nn.LayerNorm):
    """Normalisation over the last dimensions, those of `normalized_shape`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.LayerNorm`, and keyword `contract`.

    Raises:
        ShapeError: if the input does not end in `normalized_shape`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: layer_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps, contract=self.contract)


class RMSNorm(Layer, torch.nn.RMSNorm):
    """Division by the root mean square over the last dimensions, those of `normalized_shape`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.RMSNorm`, and keyword `contract`.

    Raises:
        ShapeError: if the input does not end in `normalized_shape`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: rms_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps, contract=self.contract)


class LocalResponseNorm(Layer, torch.nn.LocalResponseNorm):
    """`input / (k + alpha * m) ** beta`, m the mean square of `size` neighbouring channels: `(N, C, ...)`.

    float32 or 16-bit floats. Arguments are those of `torch.nn.LocalResponseNorm`, and keyword `contract`.

    Raises:
        ShapeError: if the input has less than three dimensions.
        DTypeError: if the dtype is not that of the contract.

    Contract: local_response_norm v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LocalResponseNorm.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k, contract=self.contract)


__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
