"""Cases of transposed convolutions: every option, layouts, special values."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

# name: n, c, h, w, o / groups, kh, kw, stride, padding, output_padding, groups, dilation
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "plain": (2, 3, 5, 6, 4, 3, 3, (1, 1), (0, 0), (0, 0), 1, (1, 1)),
    "stride": (2, 4, 5, 7, 3, 2, 2, (2, 2), (0, 0), (0, 0), 1, (1, 1)),
    "stride_padding": (2, 3, 6, 5, 5, 4, 4, (2, 2), (1, 1), (0, 0), 1, (1, 1)),
    "output_padding": (1, 3, 5, 5, 4, 3, 3, (2, 3), (1, 1), (1, 2), 1, (1, 1)),
    "output_padding_of_a_stride": (1, 2, 4, 5, 3, 3, 2, (1, 2), (1, 0), (1, 2), 1, (2, 3)),
    "dilation": (1, 2, 5, 6, 3, 3, 3, (2, 1), (2, 1), (0, 0), 1, (2, 3)),
    "groups": (2, 6, 5, 4, 2, 3, 3, (2, 2), (1, 1), (1, 1), 3, (1, 1)),
    "depthwise": (1, 5, 6, 6, 1, 3, 3, (2, 2), (1, 1), (1, 1), 5, (1, 1)),
    "many_terms": (1, 40, 4, 5, 9, 3, 3, (1, 1), (1, 1), (0, 0), 1, (1, 1)),
    "stride_past_kernel": (1, 2, 4, 4, 3, 2, 2, (3, 3), (0, 0), (1, 0), 1, (1, 1)),
}


def _arguments(name: str, special: bool = False) -> tuple[Any, ...]:
    n, c, h, w, o, kh, kw, stride, padding, more, groups, dilation = GEOMETRIES[name]
    operands = uniform(1, n, c, h, w, special=special), uniform(2, c, o, kh, kw), uniform(3, o * groups)
    return *operands, list(stride), list(padding), list(more), groups, list(dilation)


def _strided() -> tuple[Any, ...]:
    image, weight, bias, *options = _arguments("stride_padding")
    image = torch.cat([image, image], 3).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)[..., ::2]
    return image, weight.transpose(2, 3).contiguous().transpose(2, 3), bias, *options


def _without_bias() -> tuple[Any, ...]:
    image, weight, _, *options = _arguments("stride")
    return image, weight, None, *options


def _subnormal() -> tuple[Any, ...]:
    image, weight, _, *options = _arguments("stride_padding")
    return image * 2.0**-130, weight, None, *options


def _volumes(name: str, special: bool = False) -> tuple[Any, ...]:
    """The same with a depth of 4, whose kernel and options are those of the width."""
    n, c, h, w, o, kh, kw, stride, padding, more, groups, dilation = GEOMETRIES[name]
    operands = uniform(1, n, c, 4, h, w, special=special), uniform(2, c, o, kw, kh, kw), uniform(3, o * groups)
    options = [[values[1], *values] for values in (stride, padding, more)]
    return *operands, *options, groups, [dilation[1], *dilation]


def _subnormal_volumes() -> tuple[Any, ...]:
    volume, weight, bias, *options = _volumes("plain")
    return volume * 2.0**-130, weight, bias * 2.0**-130, *options


def _strided_volumes() -> tuple[Any, ...]:
    volume, weight, _, *options = _volumes("stride_padding")
    return volume.transpose(1, 4).contiguous().transpose(1, 4), weight.flip(2).transpose(2, 4), None, *options


CASES = [
    *(
        Case("conv_transpose2d", name, lambda name=name: _arguments(name), dtypes=EVERY if name == "stride" else DOUBLE)
        for name in GEOMETRIES
    ),
    Case("conv_transpose2d", "no_bias", _without_bias, dtypes=EVERY),
    Case("conv_transpose2d", "strided", _strided, dtypes=DOUBLE),
    Case("conv_transpose2d", "special", lambda: _arguments("plain", special=True), dtypes=EVERY),
    Case("conv_transpose2d", "subnormal", _subnormal),
    Case("conv_transpose2d", "empty", lambda: (uniform(1, 0, 3, 4, 4), *_arguments("plain")[1:])),
    *(
        Case("conv_transpose3d", name, lambda name=name: _volumes(name), dtypes=EVERY if name == "stride" else DOUBLE)
        for name in GEOMETRIES
    ),
    Case("conv_transpose3d", "special", lambda: _volumes("stride_padding", special=True)),
    Case("conv_transpose3d", "strided", lambda: _strided_volumes(), dtypes=DOUBLE),
    Case("conv_transpose3d", "subnormal", _subnormal_volumes),
    Case("conv_transpose3d", "empty", lambda: (uniform(1, 0, 3, 4, 4, 3), *_volumes("plain")[1:])),
]
