"""BatchNorm1d, BatchNorm2d and BatchNorm3d."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from repdl.errors import check_dim
from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class _ReproducibleBatchNorm(Layer, _BatchNorm):
    _input_dims: tuple[int, ...]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input; updates the running statistics when training."""
        check_dim(type(self).__name__, self._input_dims, input=input)
        tracking = self.training and self.track_running_stats
        batches = self.num_batches_tracked if tracking else None
        if self.momentum is not None:
            factor = self.momentum
        elif batches is not None:
            # One division of Python doubles, correctly rounded on every platform.
            factor = 1.0 / (int(batches) + 1)
        else:
            factor = 0.0
        use_buffers = tracking or not self.training
        running_mean = self.running_mean if use_buffers else None
        running_var = self.running_var if use_buffers else None
        output = F.batch_norm(
            input,
            running_mean,
            running_var,
            self.weight,
            self.bias,
            self.training or (running_mean is None and running_var is None),
            factor,
            self.eps,
            contract=self.contract,
        )
        if batches is not None:
            batches.add_(1)  # after the op, so that an input it refuses changes nothing
        return output


class BatchNorm1d(_ReproducibleBatchNorm, torch.nn.BatchNorm1d):
    """Batch normalisation of `(N, C)` or `(N, C, L)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.BatchNorm1d`, and keyword
    `contract`. With `momentum=None` the running statistics are cumulative averages of
    factor `1 / num_batches_tracked`, a division in double precision.

    Raises:
        ShapeError: if the input has other dimensions, or not `num_features` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: batch_norm v1. Source: https://arxiv.org/abs/1502.03167
    """

    _input_dims = (2, 3)


class BatchNorm2d(_ReproducibleBatchNorm, torch.nn.BatchNorm2d):
    """Batch normalisation of `(N, C, H, W)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.BatchNorm2d`, and keyword
    `contract`. With `momentum=None` the running statistics are cumulative averages of
    factor `1 / num_batches_tracked`, a division in double precision.

    Raises:
        ShapeError: if the input has other dimensions, or not `num_features` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: batch_norm v1. Source: https://arxiv.org/abs/1502.03167
    """

    _input_dims = (4,)


class BatchNorm3d(_ReproducibleBatchNorm, torch.nn.BatchNorm3d):
    """Batch normalisation of `(N, C, D, H, W)`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.BatchNorm3d`, and keyword
    `contract`. With `momentum=None` the running statistics are cumulative averages of
    factor `1 / num_batches_tracked`, a division in double precision.

    Raises:
        ShapeError: if the input has other dimensions, or not `num_features` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: batch_norm v1. Source: https://arxiv.org/abs/1502.03167
    """

    _input_dims = (5,)


__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]
