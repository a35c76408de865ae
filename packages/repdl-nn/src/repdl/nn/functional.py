"""The functions behind the layers, under the names of `torch.nn.functional`.

They are those of `repdl.ops`: torch's signatures, and a keyword `contract` where bits depend on it. Those that only
move data are torch's own. What torch has besides, an error says when it is reached.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import (
    channel_shuffle as channel_shuffle,
    native_channel_shuffle as native_channel_shuffle,
    one_hot as one_hot,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
)

from repdl import ops
from repdl.nn import left_out
from repdl.ops import *

Tensor = torch.Tensor
MOVES = ("channel_shuffle", "native_channel_shuffle", "one_hot", "pixel_shuffle", "pixel_unshuffle")
"""torch's own functions."""
IN_PLACE = ("celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_")
"""Functions with `inplace=True`."""
WITH_INDICES = tuple(f"{kind}max_pool{n}d_with_indices" for kind in ("", "adaptive_") for n in (1, 2, 3))
"""Functions with `return_indices=True`."""

OTHER_NAMES = (
    *IN_PLACE,
    *WITH_INDICES,
    "multi_head_attention_forward",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
)
"""What functions and layers compute, under other names."""


def _set(name: str, base: str, option: str) -> None:
    """`name`, the function `base` of `repdl.ops` with an option set."""
    function = getattr(ops, base)

    def called(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return function(input, *args, **kwargs, **{option: True})

    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"`{base}` with `{option}=True`; see `repdl.ops.{base}`."
    globals()[name] = called


for _name in IN_PLACE:
    _set(_name, _name.removesuffix("_"), "inplace")
for _name in WITH_INDICES:
    _set(_name, _name.removesuffix("_with_indices"), "return_indices")


def multi_head_attention_forward(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """What `MultiheadAttention` computes, of parameters that are given, with the arguments of torch's function."""
    from repdl.nn.modules.attention import multi_head_attention_forward as forward  # whose layers call this module

    return forward(*args, **kwargs)


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    *,
    contract: Any = None,
) -> Tensor:
    """`interpolate`, under the name that torch gave it first; see `repdl.ops.interpolate`."""
    return _upsampled("upsample", input, size, scale_factor, mode, align_corners, contract)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None, *, contract: Any = None) -> Tensor:
    """`interpolate` with mode "nearest"; see `repdl.ops.interpolate`."""
    return _upsampled("upsample_nearest", input, size, scale_factor, "nearest", None, contract)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None, *, contract: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and corners aligned; see `repdl.ops.interpolate`."""
    return _upsampled("upsample_bilinear", input, size, scale_factor, "bilinear", True, contract)


def _upsampled(
    name: str, input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None, contract: Any
) -> Tensor:
    warnings.warn(f"{name} is deprecated, as in torch; call interpolate", UserWarning, stacklevel=3)
    return ops.interpolate(input, size, scale_factor, mode, align_corners, contract=contract)


if not TYPE_CHECKING:  # which exports what is imported with *
    __getattr__ = left_out.attribute("nn.functional")
    __all__ = [*(name for name in ops.__all__ if hasattr(torch.nn.functional, name)), *MOVES, *OTHER_NAMES]
