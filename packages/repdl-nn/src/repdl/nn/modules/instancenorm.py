"""InstanceNorm1d, InstanceNorm2d and InstanceNorm3d."""

from __future__ import annotations

import warnings

import torch
from torch.nn.modules.instancenorm import _InstanceNorm

from repdl.errors import check_dim, check_size
from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class _ReproducibleInstanceNorm(Layer, _InstanceNorm):
    _batch_dims: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input; updates the running statistics when training."""
        name, dims = type(self).__name__, self._batch_dims
        check_dim(name, (dims - 1, dims), input=input)
        single = input.dim() < dims
        channels = input.shape[0 if single else 1]
        if channels != self.num_features:
            if self.affine or self.track_running_stats:
                check_size(name, "number of channels", channels, self.num_features, "num_features")
            warnings.warn(
                f"{name}: the input has {channels} channels and num_features is {self.num_features}; "
                f"num_features has no use without affine and track_running_stats",
                stacklevel=3,
            )
        output = F.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
            contract=self.contract,
        )
        return output.squeeze(0) if single else output


class InstanceNorm1d(_ReproducibleInstanceNorm, torch.nn.InstanceNorm1d):
    """Normalisation of each channel of each example: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.InstanceNorm1d`, and keyword `contract`.

    Raises:
        ShapeError: if the input has other dimensions, or with `affine` not `num_features` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: group_norm v1. Source: https://arxiv.org/abs/1607.08022
    """

    _batch_dims = 3


class InstanceNorm2d(_ReproducibleInstanceNorm, torch.nn.InstanceNorm2d):
    """Normalisation of each channel of each example: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.InstanceNorm2d`, and keyword `contract`.

    Raises:
        ShapeError: if the input has other dimensions, or with `affine` not `num_features` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: group_norm v1. Source: https://arxiv.org/abs/1607.08022
    """

    _batch_dims = 4


class InstanceNorm3d(_ReproducibleInstanceNorm, torch.nn.InstanceNorm3d):
    """Normalisation of each channel of each example: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.InstanceNorm3d`, and keyword `contract`.

    Raises:
        ShapeError: if the input has other dimensions, or with `affine` not `num_features` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: group_norm v1. Source: https://arxiv.org/abs/1607.08022
    """

    _batch_dims = 5


__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
