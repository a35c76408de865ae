"""Cases of attention: masks, heads that share keys, dropout, layouts, special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.dtypes import FLOATS_16_BIT
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


def _heads(
    rows: int = 19, keys: int = 23, size: int = 12, values: int = 7, heads: int = 2, length: int | None = None,
    causal: bool = False, factor: float = 0.3, bias: Any = None, mask: Any = None, p: float = 0.0, scale: float = 2.0,
    **kind: Any,
) -> tuple[Any, ...]:  # fmt: skip
    shapes = (rows, size), (keys, size), (keys, values)
    tensors = (uniform(i, 2, heads, *shape, scale=scale, **kind) for i, shape in enumerate(shapes, 1))
    return *tensors, bias, mask, POSITION if p else None, torch.tensor(factor), p, causal, length or rows


def _seen() -> torch.Tensor:
    mask = uniform(9, 2, 1, 19, 23) > -0.2
    mask[1, 0, 3] = False
    return mask


def _hiding() -> torch.Tensor:
    """A bias that hides some keys, and all of one query."""
    bias = uniform(8, 2, 1, 19, 23)
    bias[0, 0, :, 4:7] = -torch.inf
    bias[1, 0, 3] = -torch.inf
    return bias


def _underflow() -> tuple[Any, ...]:
    query, key, value, *options = _heads(rows=60, keys=300, causal=True)
    return query * 2.0**-60, key, -value.abs() * 2.0**-140, *options


def _subnormal_values() -> tuple[Any, ...]:
    query, key, value, *options = _heads(bias=uniform(8, 2, 1, 1, 23))
    return query, key, value * 2.0**-130, *options


def _overflow() -> tuple[Any, ...]:
    """Gradients of weights that are finite but for what dropout multiplies them by."""
    query, key, value, *options = _heads(rows=60, keys=300, causal=True, p=0.999)
    return query, key, value * 2.0**117, *options


def _smallest(of: int) -> tuple[Any, ...]:
    """Products with keys (1) or values (2) that round to -0, to which the keys that are not seen add +0."""
    arguments = list(_heads(rows=60, keys=300, causal=True))
    arguments[of] = torch.full_like(arguments[of], -(2.0**-149))
    return tuple(arguments)


def _nan_rows() -> tuple[Any, ...]:
    query, *others = _heads(mask=_seen())
    query[:, :, 4] = torch.nan  # every score of a row that is seen
    return query, *others


def _unseen_nan() -> tuple[Any, ...]:
    """A key that the mask hides, whose value is NaN: weights of 0 spread it."""
    query, key, value, *options = _heads(rows=60, keys=300, causal=True)
    value[:, :, 250] = torch.nan
    return query, key, value, *options


def _columns(**kind: Any) -> tuple[Any, ...]:
    query, key, value, *options = _heads(**kind)
    return *(t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in (query, key, value)), *options


HEADS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "plain": _heads,
    "causal": lambda: _heads(causal=True),
    "causal_long": lambda: _heads(rows=270, keys=300, size=5, values=3, heads=1, causal=True),
    "causal_few_keys": lambda: _heads(rows=40, keys=9, causal=True),
    "shared": lambda: _heads(rows=38, length=19, mask=uniform(9, 1, 4, 19, 23) > 0),
    "shared_causal": lambda: _heads(rows=300, keys=70, length=100, heads=1, causal=True),
    # Blocks of 56, 48 and 256 rows end one row after a head of queries does.
    **{
        f"shared_causal_{n}": lambda n=n: _heads(rows=2 * n, keys=n + 3, size=3, heads=1, length=n, causal=True)
        for n in (47, 55, 255)
    },
    "mask": lambda: _heads(mask=_seen()),
    "mask_nan": _nan_rows,
    "bias": lambda: _heads(bias=uniform(8, 2, 1, 1, 23)),
    "bias_hides": lambda: _heads(bias=_hiding()),
    "bias_shared": lambda: _heads(rows=38, length=19, bias=uniform(8, 1, 4, 19, 23), p=0.3),
    "bias_long": lambda: _heads(rows=270, keys=30, size=5, heads=1, bias=uniform(8, 1, 1, 270, 1), p=0.2),
    "bias_special": lambda: _heads(bias=uniform(8, 2, 1, 1, 23), special=True, p=0.2),
    "wide": lambda: _heads(rows=9, keys=12, size=40, values=70),
    "dropout": lambda: _heads(p=0.3),
    "dropout_of_all": lambda: _heads(p=1.0),
    "dropout_most": lambda: _heads(causal=True, p=1 - 2.0**-40, scale=1e17),
    "dropout_overflow": _overflow,
    "dropout_mask": lambda: _heads(mask=_seen(), p=0.5),
    "dropout_causal": lambda: _heads(rows=300, keys=290, size=5, values=3, causal=True, p=0.3),
    "dropout_shared": lambda: _heads(rows=114, length=57, keys=61, causal=True, p=0.3),
    "dropout_special": lambda: _heads(special=True, causal=True, p=0.3),
    "negative": lambda: _heads(causal=True, factor=-0.7),
    "special": lambda: _heads(special=True),
    "special_causal": lambda: _heads(special=True, causal=True),
    "causal_unseen_nan": _unseen_nan,
    "infinite_factor": lambda: _heads(causal=True, factor=float("inf")),
    "large": lambda: _heads(rows=9, keys=12, causal=True, scale=1e19),
    "underflow": _underflow,
    "smallest_keys": lambda: _smallest(1),
    "smallest_values": lambda: _smallest(2),
    "strided": lambda: _columns(causal=True),
    "bias_strided": lambda: _columns(bias=uniform(8, 2, 1, 19, 23)),
    "bias_subnormal": _subnormal_values,
    "empty": lambda: (*(t[:0] for t in _heads()[:3]), *_heads()[3:]),
    "bias_empty": lambda: (*(t[:0] for t in _heads()[:3]), *_heads(bias=uniform(8, 1, 1, 1, 23))[3:]),
}


def _with_grad(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    query, _, value, *_ = arguments
    return uniform(7, *query.shape[:3], value.shape[3]), *arguments


def _infinite_gradient() -> tuple[Any, ...]:
    """Of queries that the mask hides: it is not passed on."""
    grad, *others = _with_grad(_heads(mask=_seen()))
    grad[1, :, 3] = torch.inf
    return grad, *others


_LARGE = {
    *("bias_long", "causal_long", "causal_unseen_nan", "dropout_causal", "dropout_overflow", "dropout_shared"),
    *("shared_causal", "shared_causal_255", "smallest_keys", "smallest_values", "underflow"),
}
"""For the blocks of a kernel. In float64 a formula computes, and the reference takes seconds for each of these."""


def _dtypes(name: str) -> tuple[torch.dtype, ...]:
    return FLOATS_16_BIT if name in _LARGE else EVERY


CASES = [
    *(Case("attention", name, make, dtypes=_dtypes(name)) for name, make in HEADS.items()),
    *(
        Case("attention_backward", name, lambda make=make: _with_grad(make()), dtypes=_dtypes(name))
        for name, make in HEADS.items()
    ),
    Case("attention_backward", "infinite_gradient", _infinite_gradient, dtypes=EVERY),
    *(
        Case("attention_backward_bias", name, lambda make=make: _with_grad(make()), dtypes=_dtypes(name))
        for name, make in HEADS.items()
        if name.startswith("bias")
    ),
    *(Case("scaled_dot_product_attention", name, make, dtypes=EVERY) for name, make in ARGUMENTS.items()),
    *(
        Case("attention_weights", name, lambda make=make: (*make()[:2], *make()[3:]), dtypes=EVERY)
        for name, make in ARGUMENTS.items()
        if name
        in ("plain", "causal", "hidden", "bias", "dropout", "shared", "special", "strided", "subnormal", "empty")
    ),
]
