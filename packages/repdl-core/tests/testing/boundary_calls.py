"""Calls of functions of elements, with torch's: for tests at the ends of their domains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from repdl import ops

Tensor = torch.Tensor
Call = Callable[..., Tensor]
_INF, _NAN = math.inf, math.nan


def _function(module: Any, name: str) -> Any:
    if module is ops:
        return getattr(ops, name)
    return next(getattr(m, name) for m in (F, torch, torch.linalg) if hasattr(m, name))


def _row(**options: Any) -> Callable[[Any, str], Call]:
    """A function along rows of two elements."""
    return lambda module, name: lambda x, y: _function(module, name)(torch.stack([x, y], -1), **options)


def _plain(*arguments: Any, **options: Any) -> Callable[[Any, str], Call]:
    """A function with options."""

    def of(module: Any, name: str) -> Call:
        return lambda *tensors: _function(module, name)(*tensors, *arguments, **options)

    return of


def _after(*first: Any) -> Callable[[Any, str], Call]:
    """A function whose other operand is a number, before the tensor."""
    return lambda module, name: lambda x: _function(module, name)(*first, x)


def _of_targets(target: Callable[[int], Tensor], **options: Any) -> Callable[[Any, str], Call]:
    """A loss of rows of two elements."""
    return lambda module, name: (
        lambda x, y: _function(module, name)(torch.stack([x, y], -1), target(len(x)), reduction="none", **options)
    )


def _signed(sign: int, **options: Any) -> Callable[[Any, str], Call]:
    """A loss of two elements and a sign."""
    return lambda module, name: (
        lambda x, y: _function(module, name)(x, y, torch.full_like(x, sign).detach(), reduction="none", **options)
    )


def _cosine(sign: int | None) -> Callable[[Any, str], Call]:
    """Of the vectors (x, y) and (y, 1)."""

    def of(module: Any, name: str) -> Call:
        def call(x: Tensor, y: Tensor) -> Tensor:
            pair = torch.stack([x, y], -1), torch.stack([y, torch.ones_like(y)], -1)
            if sign is None:
                return _function(module, name)(*pair)
            return _function(module, name)(*pair, torch.full((len(x),), sign), reduction="none")

        return call

    return of


def _columns(*options: Any, anchor: bool = False, **named: Any) -> Callable[[Any, str], Call]:
    """A function of vectors of one element."""

    def of(module: Any, name: str) -> Call:
        def call(x: Tensor, y: Tensor) -> Tensor:
            others = (torch.ones_like(x).unsqueeze(1),) if anchor else ()
            return _function(module, name)(x.unsqueeze(1), y.unsqueeze(1), *others, *options, **named)

        return call

    return of


def _soft_margin(module: Any, name: str) -> Call:
    """torch has no derivative by the target."""
    return lambda x, y: _function(module, name)(x, y.detach(), reduction="none")


def _where(module: Any, name: str) -> Call:
    return lambda x, y: _function(module, name)(x.detach() > 0, x, y)


_NONE = {"reduction": "none"}
_SAME = (
    "abs acos acosh asin asinh atan atanh cos cosh erf erfc erfinv exp exp2 expm1 log log10 log1p log2 neg reciprocal "
    "rsqrt sigmoid sign sin sinh sqrt square tan tanh relu logit sinc silu elu gelu hardsigmoid hardswish leaky_relu "
    "softplus hardtanh relu6 hardshrink softshrink celu selu logsigmoid mish softsign tanhshrink rrelu"
)
ONE: dict[str, list[Callable[[Any, str], Call]]] = {name: [_plain()] for name in _SAME.split()}
"""Of one tensor, and how it is called."""
for _name, _calls in {
    "logit": [_plain(0.1), _plain(0.6)],
    "elu": [_plain(0.5), _plain(-0.3)],
    "gelu": [_plain(approximate="tanh")],
    "leaky_relu": [_plain(-0.3)],
    "softplus": [_plain(2.0, 10.0)],
    "hardtanh": [_plain(0.0, 3.0), _plain(2.0, 2.0)],
    "threshold": [_plain(0.0, 0.0), _plain(0.1, -3.0)],
    "hardshrink": [_plain(0.0), _plain(-0.1)],
    "softshrink": [_plain(0.0)],
    "celu": [_plain(0.5), _plain(-0.5)],
    "clamp": [_plain(*b) for b in ((0.5, None), (None, 0.5), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0), (_NAN, 1.0))],
    "pow": [_plain(e) for e in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, _INF, _NAN)]
    + [_after(b) for b in (0.0, -0.0, 0.5, 1.0, 2.0, -1.0, _INF, _NAN)],
    "xlogy": [_plain(b) for b in (0.0, 2.0, _INF, _NAN)] + [_after(b) for b in (0.0, 2.0, _INF, _NAN)],
    **{n: [_plain(b) for b in (0.0, 2.0, _INF, _NAN)] for n in ("fmod", "remainder", "div", "mul", "add", "sub")},
}.items():
    ONE.setdefault(_name, []).extend(_calls)

_PAIRS = (
    "add sub mul div atan2 maximum minimum max min fmax fmin pow hypot logaddexp logaddexp2 xlogy fmod remainder clamp"
)
TWO: dict[str, list[Callable[[Any, str], Call]]] = {
    **{name: [_plain()] for name in _PAIRS.split()},
    "where": [_where],
    "lerp": [_plain(0.3), _plain(0.7)],
    "glu": [_row()],
    "amax": [_row(dim=-1)],
    "amin": [_row(dim=-1)],
    "vector_norm": [_row(ord=p, dim=-1) for p in (0.5, 1, 1.5, 2, 3, _INF, -_INF)],
    "normalize": [_row(), _row(p=1.0)],
    "cosine_similarity": [_cosine(None)],
    "mse_loss": [_plain(**_NONE)],
    "l1_loss": [_plain(**_NONE)],
    "huber_loss": [_plain(**_NONE), _plain(delta=0.5, **_NONE)],
    "smooth_l1_loss": [_plain(**_NONE), _plain(beta=0.5, **_NONE), _plain(beta=0.0, **_NONE)],
    "binary_cross_entropy": [_plain(**_NONE)],
    "binary_cross_entropy_with_logits": [_plain(**_NONE)],
    "kl_div": [_plain(**_NONE), _plain(log_target=True, **_NONE)],
    "hinge_embedding_loss": [_plain(**_NONE)],
    "soft_margin_loss": [_soft_margin],
    "poisson_nll_loss": [_plain(log_input=i, full=f, **_NONE) for i in (True, False) for f in (True, False)],
    "margin_ranking_loss": [_signed(1), _signed(-1, margin=0.5)],
    "multi_margin_loss": [_of_targets(lambda n: torch.zeros(n, dtype=torch.int64), p=p) for p in (1, 2)],
    "multilabel_margin_loss": [_of_targets(lambda n: torch.tensor([[1, -1]]).expand(n, 2))],
    "multilabel_soft_margin_loss": [_columns(**_NONE)],
    "cosine_embedding_loss": [_cosine(1), _cosine(-1)],
    "triplet_margin_loss": [_columns(anchor=True, **_NONE)],
    "triplet_margin_with_distance_loss": [
        _columns(anchor=True, distance_function=lambda a, b: (a - b).abs().sum(1), **_NONE)
    ],
    "cross_entropy": [_of_targets(lambda n: torch.zeros(n, dtype=torch.int64))],
    "nll_loss": [_of_targets(lambda n: torch.ones(n, dtype=torch.int64))],
    "pairwise_distance": [_columns(p) for p in (1.0, 2.0, _INF)],
}
"""Of two tensors."""
TWO["add"].append(_plain(alpha=2.0))
TWO["clamp"].append(lambda module, name: lambda x, y: _function(module, name)(x, None, y))
TWO["div"].extend(_plain(rounding_mode=mode) for mode in ("floor", "trunc"))

THREE: dict[str, list[Callable[[Any, str], Call]]] = {
    "addcmul": [_plain(value=0.5)],
    "addcdiv": [_plain(value=0.5)],
    "lerp": [_plain()],
    "clamp": [_plain()],
    "gaussian_nll_loss": [_plain(**_NONE), _plain(full=True, **_NONE)],
}
"""Of three."""


def points(dtype: torch.dtype, most: int) -> list[float]:
    """The ends of domains, kinks, and what is next to them; fewer of those for functions of more tensors.

    Of one tensor, -0 and NaN are the first, which torch computes in vectors, and the last, which it does not.
    """
    found = torch.finfo(dtype)
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)).item()
    small = [0.0, 1.0, _INF, 0.5, least, found.max]
    if most < 3:
        small += [found.tiny, 2.0, 3.0, 1.5, 0.1]
    if most < 2:
        ends = torch.tensor([1.0, 0.1, 0.5, 0.6, 1.1, 2.0, 3.0, 6.0, 10.0, 20.0], dtype=dtype)
        small += [*torch.nextafter(ends, ends * 2).tolist(), *torch.nextafter(ends, ends * 0).tolist(), *ends.tolist()]
        small += [88.7, 103.0, math.pi / 2, math.pi, 1e20]
    small = [_NAN, -0.0, *dict.fromkeys(v for value in small for v in (value, -value))]
    return small if most > 1 else small + [0.0] * (4 - len(small) % 4) + [1.0, -0.0, _NAN]


def operands(name: str, count: int, dtype: torch.dtype) -> list[Tensor]:
    """All points, or pairs or triples of them, that a function takes."""
    rows = list(itertools.product(points(dtype, count), repeat=count))
    if name == "binary_cross_entropy":
        rows = [row for row in rows if 0 <= row[0] <= 1 and 0 <= row[1] <= 1]
    if name == "gaussian_nll_loss":
        rows = [row for row in rows if not row[2] < 0]
    return [torch.tensor(column, dtype=dtype) for column in zip(*rows)]


def calls() -> Iterator[tuple[str, int, Sequence[Callable[[Any, str], Call]]]]:
    """Name, number of tensors, and how it is called."""
    for count, table in ((1, ONE), (2, TWO), (3, THREE)):
        for name, ways in table.items():
            yield name, count, ways
