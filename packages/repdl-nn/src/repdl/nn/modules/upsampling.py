"""Upsampling."""

from __future__ import annotations

from typing import Any

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class _Upsample(Layer):
    size: Any
    scale_factor: Any
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(N, C, H, W) -> (N, C, OH, OW)`."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
            contract=self.contract,
        )


class Upsample(_Upsample, torch.nn.Upsample):
    """The input on another grid, of 1 to 3 sides: `(N, C, H, W)` to `(N, C, OH, OW)`, any floating-point dtype.

    Arguments are those of `torch.nn.Upsample`, and keyword `contract`.

    Raises:
        ShapeError: if sizes, factors or the mode do not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: interpolate v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Upsample.html
    """


class UpsamplingNearest2d(_Upsample, torch.nn.UpsamplingNearest2d):
    """The nearest elements on another grid: `(N, C, H, W)` to `(N, C, OH, OW)`, any floating-point dtype.

    Arguments are those of `torch.nn.UpsamplingNearest2d`, and keyword `contract`.

    Raises:
        ShapeError: if sizes, factors or the mode do not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: interpolate v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingNearest2d.html
    """


class UpsamplingBilinear2d(_Upsample, torch.nn.UpsamplingBilinear2d):
    """Bilinear interpolation, corners on corners: `(N, C, H, W)` to `(N, C, OH, OW)`, any floating-point dtype.

    Arguments are those of `torch.nn.UpsamplingBilinear2d`, and keyword `contract`.

    Raises:
        ShapeError: if sizes, factors or the mode do not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: interpolate v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingBilinear2d.html
    """


__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]
