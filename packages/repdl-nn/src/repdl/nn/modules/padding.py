"""Padding by a constant or by elements that are repeated."""

from __future__ import annotations

from typing import Any

import torch

from repdl.errors import check_dim
from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class _Pad(Layer):
    _mode: str
    padding: Any  # which torch's classes declare differently

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, self._mode, contract=self.contract)


class _ReflectionPad(_Pad):
    _mode = "reflect"


class _ReplicationPad(_Pad):
    _mode = "replicate"


class _CircularPad(_Pad):
    _mode = "circular"

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        sides = len(self.padding) // 2
        check_dim(type(self).__name__, (sides + 1, sides + 2), input=input)
        return super().forward(input)


class _ConstantPad(_Pad):
    value: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, "constant", self.value, contract=self.contract)


class ReflectionPad1d(_ReflectionPad, torch.nn.ReflectionPad1d):
    """Padding by reflection at the edges: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReflectionPad1d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad1d.html
    """


class ReflectionPad2d(_ReflectionPad, torch.nn.ReflectionPad2d):
    """Padding by reflection at the edges: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReflectionPad2d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad2d.html
    """


class ReflectionPad3d(_ReflectionPad, torch.nn.ReflectionPad3d):
    """Padding by reflection at the edges: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReflectionPad3d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad3d.html
    """


class ReplicationPad1d(_ReplicationPad, torch.nn.ReplicationPad1d):
    """Padding by repetition of the edges: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReplicationPad1d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad1d.html
    """


class ReplicationPad2d(_ReplicationPad, torch.nn.ReplicationPad2d):
    """Padding by repetition of the edges: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReplicationPad2d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad2d.html
    """


class ReplicationPad3d(_ReplicationPad, torch.nn.ReplicationPad3d):
    """Padding by repetition of the edges: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReplicationPad3d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad3d.html
    """


class CircularPad1d(_CircularPad, torch.nn.CircularPad1d):
    """Padding by going around: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.CircularPad1d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad1d.html
    """


class CircularPad2d(_CircularPad, torch.nn.CircularPad2d):
    """Padding by going around: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.CircularPad2d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad2d.html
    """


class CircularPad3d(_CircularPad, torch.nn.CircularPad3d):
    """Padding by going around: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.CircularPad3d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad3d.html
    """


class ConstantPad1d(_ConstantPad, torch.nn.ConstantPad1d):
    """Padding by `value`: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.ConstantPad1d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if negative padding cuts more than there is.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad1d.html
    """


class ConstantPad2d(_ConstantPad, torch.nn.ConstantPad2d):
    """Padding by `value`: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ConstantPad2d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if negative padding cuts more than there is.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad2d.html
    """


class ConstantPad3d(_ConstantPad, torch.nn.ConstantPad3d):
    """Padding by `value`: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ConstantPad3d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if negative padding cuts more than there is.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad3d.html
    """


class ZeroPad1d(_ConstantPad, torch.nn.ZeroPad1d):
    """Padding by zeros: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.ZeroPad1d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if negative padding cuts more than there is.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad1d.html
    """


class ZeroPad2d(_ConstantPad, torch.nn.ZeroPad2d):
    """Padding by zeros: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ZeroPad2d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if negative padding cuts more than there is.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad2d.html
    """


class ZeroPad3d(_ConstantPad, torch.nn.ZeroPad3d):
    """Padding by zeros: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ZeroPad3d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if negative padding cuts more than there is.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad3d.html
    """


__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]
