"""Layers that learn their number of inputs from the first call: torch's classes, which become RepDL's layers."""

from __future__ import annotations

from typing import Any

import torch

from repdl.contract import Contract
from repdl.generators.generator import chosen
from repdl.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from repdl.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from repdl.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from repdl.nn.modules.layer import canonical
from repdl.nn.modules.linear import Linear
from repdl.random import Generator


class _Lazy(torch.nn.Module):
    """What torch's lazy classes do not pass on to a layer: its contract and its generator."""

    def __init__(
        self,
        *args: Any,
        contract: Contract | str | None = None,
        generator: Generator | None = None,
        **kwargs: Any,
    ) -> None:
        name = canonical(contract)
        chosen(type(self).__name__, generator)
        super().__init__(*args, **kwargs)
        self.contract, self.generator = name, generator

    def initialize_parameters(self, input: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the number of inputs from the first input, or from parameters that a state has brought."""
        super().initialize_parameters(input, *args, **kwargs)  # type: ignore[misc,operator]
        weight: Any = getattr(self, "weight", None)
        if getattr(self, "num_features", None) == 0:
            self.num_features = input.shape[1] if weight is None else weight.shape[0]
        if getattr(self, "in_channels", None) == 0:
            groups: Any = self.groups
            self.in_channels = weight.shape[0] if self.transposed else weight.shape[1] * groups


class LazyBatchNorm1d(_Lazy, torch.nn.LazyBatchNorm1d, BatchNorm1d):  # type: ignore[misc]
    """A `BatchNorm1d` that takes `num_features` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyBatchNorm1d`, and keywords `contract` and `generator`.

    Raises:
        what `BatchNorm1d` raises.

    Contract: batch_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm1d.html
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_Lazy, torch.nn.LazyBatchNorm2d, BatchNorm2d):  # type: ignore[misc]
    """A `BatchNorm2d` that takes `num_features` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyBatchNorm2d`, and keywords `contract` and `generator`.

    Raises:
        what `BatchNorm2d` raises.

    Contract: batch_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm2d.html
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_Lazy, torch.nn.LazyBatchNorm3d, BatchNorm3d):  # type: ignore[misc]
    """A `BatchNorm3d` that takes `num_features` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyBatchNorm3d`, and keywords `contract` and `generator`.

    Raises:
        what `BatchNorm3d` raises.

    Contract: batch_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm3d.html
    """

    cls_to_become = BatchNorm3d


class LazyConv1d(_Lazy, torch.nn.LazyConv1d, Conv1d):  # type: ignore[misc]
    """A `Conv1d` that takes `in_channels` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyConv1d`, and keywords `contract` and `generator`.

    Raises:
        what `Conv1d` raises.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv1d.html
    """

    cls_to_become = Conv1d


class LazyConv2d(_Lazy, torch.nn.LazyConv2d, Conv2d):  # type: ignore[misc]
    """A `Conv2d` that takes `in_channels` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyConv2d`, and keywords `contract` and `generator`.

    Raises:
        what `Conv2d` raises.

    Contract: conv2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv2d.html
    """

    cls_to_become = Conv2d


class LazyConv3d(_Lazy, torch.nn.LazyConv3d, Conv3d):  # type: ignore[misc]
    """A `Conv3d` that takes `in_channels` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyConv3d`, and keywords `contract` and `generator`.

    Raises:
        what `Conv3d` raises.

    Contract: conv3d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv3d.html
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_Lazy, torch.nn.LazyConvTranspose1d, ConvTranspose1d):  # type: ignore[misc]
    """A `ConvTranspose1d` that takes `in_channels` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyConvTranspose1d`, and keywords `contract` and `generator`.

    Raises:
        what `ConvTranspose1d` raises.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose1d.html
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_Lazy, torch.nn.LazyConvTranspose2d, ConvTranspose2d):  # type: ignore[misc]
    """A `ConvTranspose2d` that takes `in_channels` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyConvTranspose2d`, and keywords `contract` and `generator`.

    Raises:
        what `ConvTranspose2d` raises.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose2d.html
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_Lazy, torch.nn.LazyConvTranspose3d, ConvTranspose3d):  # type: ignore[misc]
    """A `ConvTranspose3d` that takes `in_channels` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyConvTranspose3d`, and keywords `contract` and `generator`.

    Raises:
        what `ConvTranspose3d` raises.

    Contract: conv_transpose v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose3d.html
    """

    cls_to_become = ConvTranspose3d


class LazyInstanceNorm1d(_Lazy, torch.nn.LazyInstanceNorm1d, InstanceNorm1d):  # type: ignore[misc]
    """A `InstanceNorm1d` that takes `num_features` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyInstanceNorm1d`, and keywords `contract` and `generator`.

    Raises:
        what `InstanceNorm1d` raises.

    Contract: group_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm1d.html
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_Lazy, torch.nn.LazyInstanceNorm2d, InstanceNorm2d):  # type: ignore[misc]
    """A `InstanceNorm2d` that takes `num_features` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyInstanceNorm2d`, and keywords `contract` and `generator`.

    Raises:
        what `InstanceNorm2d` raises.

    Contract: group_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm2d.html
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_Lazy, torch.nn.LazyInstanceNorm3d, InstanceNorm3d):  # type: ignore[misc]
    """A `InstanceNorm3d` that takes `num_features` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyInstanceNorm3d`, and keywords `contract` and `generator`.

    Raises:
        what `InstanceNorm3d` raises.

    Contract: group_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm3d.html
    """

    cls_to_become = InstanceNorm3d


class LazyLinear(_Lazy, torch.nn.LazyLinear, Linear):  # type: ignore[misc]
    """A `Linear` that takes `in_features` from its first input, and draws its parameters then (see `Layer`).

    Arguments are those of `torch.nn.LazyLinear`, and keywords `contract` and `generator`.

    Raises:
        what `Linear` raises.

    Contract: linear v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyLinear.html
    """

    cls_to_become = Linear


__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]
