"""Cases of attention: masks, heads that share keys, dropout, layouts, special values."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform


def _operands(*batch: int, length: int = 7, keys: int = 9, size: int = 16, **kind: Any) -> tuple[torch.Tensor, ...]:
    shapes = (length, size), (keys, size), (keys, 5)
    return tuple(uniform(i, *batch, *shape, scale=2.0, **kind) for i, shape in enumerate(shapes, 1))


def _options(
    bias: Any = None, mask: Any = None, position: Any = None, p: float = 0.0, causal: bool = False, scale: Any = None,
    gqa: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    return bias, mask, position, p, causal, scale, gqa


def _mask(*shape: int) -> torch.Tensor:
    return uniform(9, *shape) > -0.2


def _hidden() -> torch.Tensor:
    mask = _mask(7, 9)
    mask[3] = False
    return mask


def _shared(causal: bool = False) -> tuple[Any, ...]:
    query, key, value = uniform(1, 2, 6, 5, 8), uniform(2, 2, 3, 6, 8), uniform(3, 2, 3, 6, 4)
    return query, key, value, *_options(causal=causal, gqa=True)


def _strided() -> tuple[Any, ...]:
    query, key, value = (t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in _operands(2, 3))
    return query, key, value, *_options(causal=True)


def _subnormal() -> tuple[Any, ...]:
    query, key, value = uniform(1, 2, 7, 8, scale=2.0**-128), uniform(2, 2, 9, 8, scale=2.0**126), uniform(3, 2, 9, 5)
    return query, key, value * 2.0**-130, *_options(bias=torch.arange(9.0) * -12)


POSITION = torch.tensor([7, 3, 2**33 + 1])

ARGUMENTS = {
    "plain": lambda: (*_operands(2, 3), *_options()),
    "causal": lambda: (*_operands(2, 3), *_options(causal=True)),
    "scale": lambda: (*_operands(2), *_options(scale=0.3)),
    "mask": lambda: (*_operands(2, 3), *_options(mask=_mask(2, 1, 7, 9))),
    "hidden": lambda: (*_operands(2, 3), *_options(mask=_hidden())),
    "bias": lambda: (*_operands(2, 3), *_options(bias=uniform(8, 3, 1, 9))),
    "dropout": lambda: (*_operands(2, 3), *_options(position=POSITION, p=0.3)),
    "shared": _shared,
    "shared_causal": lambda: _shared(True),
    "broadcast": lambda: (*_operands(2, 3)[:1], *_operands(3)[1:], *_options()),
    "two_dimensions": lambda: (*_operands(), *_options()),
    "long": lambda: (*_operands(2, length=40, keys=300, size=64), *_options(causal=True)),
    "strided": _strided,
    "special": lambda: (*_operands(2, special=True), *_options(mask=_hidden())),
    "subnormal": _subnormal,
    "no_keys": lambda: (*_operands(2, keys=0), *_options()),
    "empty": lambda: (*_operands(0), *_options()),
}

CASES = [
    *(Case("scaled_dot_product_attention", name, make, dtypes=EVERY) for name, make in ARGUMENTS.items()),
    *(
        Case("attention_weights", name, lambda make=make: (*make()[:2], *make()[3:]), dtypes=EVERY)
        for name, make in ARGUMENTS.items()
        if name
        in ("plain", "causal", "hidden", "bias", "dropout", "shared", "special", "strided", "subnormal", "empty")
    ),
]
