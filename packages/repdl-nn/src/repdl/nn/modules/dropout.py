"""Dropout layers: what they drop follows from their generator's position, on every machine the same."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class _Dropout(Layer):
    """Its generator draws at each call: the one given to the constructor, or the default one."""

    _function: str
    p: float
    inplace: bool

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Same shape as the input; the input itself in eval mode."""
        function = getattr(F, self._function)
        options = {"generator": self.generator, "contract": self.contract}
        return function(input, self.p, self.training, self.inplace, **options)


class Dropout(_Dropout, torch.nn.Dropout):
    """Each element, with probability `p`, times 0, else times `1 / (1 - p)`: any shape, any floating-point dtype.

    Arguments are those of `torch.nn.Dropout`, and keywords `generator`, whose numbers are drawn
    in training (None: the default one), and `contract`, which changes no bit here.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1].
        ShapeError, DTypeError: if dimensions or dtype are not those of the contract.

    Contract: dropout v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html
    """

    _function = "dropout"


class Dropout1d(_Dropout, torch.nn.Dropout1d):
    """`Dropout` of whole channels: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.Dropout1d`, and keywords `generator`, whose numbers are drawn
    in training (None: the default one), and `contract`, which changes no bit here.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1].
        ShapeError, DTypeError: if dimensions or dtype are not those of the contract.

    Contract: dropout v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout1d.html
    """

    _function = "dropout1d"


class Dropout2d(_Dropout, torch.nn.Dropout2d):
    """`Dropout` of whole channels: `(N, C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.Dropout2d`, and keywords `generator`, whose numbers are drawn
    in training (None: the default one), and `contract`, which changes no bit here.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1].
        ShapeError, DTypeError: if dimensions or dtype are not those of the contract.

    Contract: dropout v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout2d.html
    """

    _function = "dropout2d"


class Dropout3d(_Dropout, torch.nn.Dropout3d):
    """`Dropout` of whole channels: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.Dropout3d`, and keywords `generator`, whose numbers are drawn
    in training (None: the default one), and `contract`, which changes no bit here.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1].
        ShapeError, DTypeError: if dimensions or dtype are not those of the contract.

    Contract: dropout v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout3d.html
    """

    _function = "dropout3d"


class AlphaDropout(_Dropout, torch.nn.AlphaDropout):
    """Each element, with probability `p`, at SELU's lowest value, mean and variance kept: any shape, floating-point.

    Arguments are those of `torch.nn.AlphaDropout`, and keywords `generator`, whose numbers are drawn
    in training (None: the default one), and `contract`, which changes no bit here.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1].
        ShapeError, DTypeError: if dimensions or dtype are not those of the contract.

    Contract: dropout v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AlphaDropout.html
    """

    _function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout, torch.nn.FeatureAlphaDropout):
    """`AlphaDropout` of whole channels: `(N, C, ...)`, any floating-point dtype.

    Arguments are those of `torch.nn.FeatureAlphaDropout`, and keywords `generator`, whose numbers are drawn
    in training (None: the default one), and `contract`, which changes no bit here.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1].
        ShapeError, DTypeError: if dimensions or dtype are not those of the contract.

    Contract: dropout v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.FeatureAlphaDropout.html
    """

    _function = "feature_alpha_dropout"


__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
