"""BatchNorm1d, BatchNorm2d, BatchNorm3d and SyncBatchNorm."""

from __future__ import annotations

from typing import Any

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
        output = self._normalized(input, running_mean, running_var, factor)
        if batches is not None:
            batches.add_(1)  # after the op, so that an input it refuses changes nothing
        return output

    def _normalized(
        self, input: torch.Tensor, mean: torch.Tensor | None, var: torch.Tensor | None, factor: float
    ) -> torch.Tensor:
        training = self.training or (mean is None and var is None)
        return F.batch_norm(
            input, mean, var, self.weight, self.bias, training, factor, self.eps, contract=self.contract
        )


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


class SyncBatchNorm(_ReproducibleBatchNorm, torch.nn.SyncBatchNorm):
    """Batch normalisation of `(N, C, ...)` over the rows of all ranks of `process_group`, any floating-point dtype.

    Arguments and initialisation are those of `torch.nn.SyncBatchNorm`, and keyword `contract`. It computes on a CPU
    too. Without several ranks, and in evaluation, it is `BatchNorm`. It is differentiable once.

    Raises:
        ShapeError: if the input has one dimension, or not `num_features` channels.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: batch_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
    """

    _input_dims = tuple(range(2, 64))

    @classmethod
    def convert_sync_batchnorm(cls, module: torch.nn.Module, process_group: Any = None) -> torch.nn.Module:
        """The module with each of its `BatchNorm` layers in this form, which has the same parameters and buffers."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, torch.nn.SyncBatchNorm):
            options = module.eps, module.momentum, module.affine, module.track_running_stats, process_group
            made = cls(module.num_features, *options, contract=getattr(module, "contract", None))
            for name, parameter in module.named_parameters(recurse=False):
                setattr(made, name, parameter)
            for name, buffer in module.named_buffers(recurse=False):
                setattr(made, name, buffer)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made

    def _normalized(
        self, input: torch.Tensor, mean: torch.Tensor | None, var: torch.Tensor | None, factor: float
    ) -> torch.Tensor:
        if self.training:
            from repdl.distributed.batch_norm import group_size, sync_batch_norm

            if group_size(self.process_group) > 1:
                return sync_batch_norm(
                    *(input, mean, var, self.weight, self.bias, factor, self.eps, self.process_group, self.contract)
                )
        return super()._normalized(input, mean, var, factor)


__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]
