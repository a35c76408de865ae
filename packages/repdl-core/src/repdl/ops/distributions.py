"""Draws of floating-point numbers.

The registered ops are what `repdl.random` is built of; they have no public functions of their own.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from repdl import registry
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import check, check_range
from repdl.ops._position import POSITION, check_place, check_position, check_probability, draw

__all__: list[str] = []

FAMILY = "distributions"
ANY = Dtypes(integers=(POSITION,), shapes=("like",))
SINGLES = Dtypes(SINGLE, integers=(POSITION,), shapes=("like",))


def _check_uniform(like: torch.Tensor, low: float, high: float, limit: float) -> None:
    op, most = "uniform", torch.finfo(like.dtype).max
    check(
        op,
        -most <= low <= high <= most and high - low <= most,
        lambda: f"low is {low} and high is {high}, expected low <= high and high - low <= {most}, finite",
    )
    check(op, -math.inf < limit < math.inf, lambda: f"limit is {limit}, expected a finite number")


def _check_normal(like: torch.Tensor, mean: float, std: float) -> None:
    check("normal", std >= 0.0, lambda: f"std is {std}, expected 0 or more")


def _check_exponential(like: torch.Tensor, lambd: float) -> None:
    check("exponential", lambd > 0.0, lambda: f"lambd is {lambd}, expected more than 0")


def _check_truncated_normal(like: torch.Tensor, mean: float, std: float, a: float, b: float) -> None:
    op, most = "truncated_normal", 2.0**60  # whose square is a float32
    check(op, 0.0 < std < math.inf, lambda: f"std is {std}, expected more than 0, finite")
    check(op, -math.inf < mean < math.inf, lambda: f"mean is {mean}, expected a finite number")
    check(op, a <= b, lambda: f"a is {a} and b is {b}, expected a <= b")
    check(
        op,
        (a - mean) / std <= most and (b - mean) / std >= -most,
        lambda: f"a is {a} and b is {b}, expected numbers within 2**60 standard deviations of mean = {mean}",
    )


draw("uniform", "float low, float high, float limit", check_options=_check_uniform, dtypes=ANY, family=FAMILY)
draw("normal", "float mean, float std", check_options=_check_normal, dtypes=ANY, family=FAMILY)
draw("exponential", "float lambd", check_options=_check_exponential, dtypes=ANY, family=FAMILY)
draw(
    "truncated_normal", "float mean, float std, float a, float b",
    check_options=_check_truncated_normal, dtypes=SINGLES, family=FAMILY,
)  # fmt: skip
draw(
    "bernoulli_scalar", "float p",
    check_options=lambda like, p: check_probability("bernoulli_scalar", p), dtypes=ANY, family=FAMILY,
)  # fmt: skip


def _check_probabilities(p: torch.Tensor, position: torch.Tensor) -> None:
    check_place("bernoulli", p.numel(), position)
    if p.device.type != "cpu" or p.numel() == 0:  # the host waits for no device
        return
    low, high = p.aminmax()  # NaN where one is
    if low >= 0 and high <= 1:
        return
    wrong = ~((p >= 0) & (p <= 1))
    where = tuple(int(i) for i in wrong.nonzero()[0])
    check_range("bernoulli", False, f"p{list(where)} is {float(p[where])}, expected a probability, 0 to 1")


def _setup_bernoulli(ctx: Any, inputs: Any, output: Any) -> None:
    pass


registry.define(
    "bernoulli",
    f"(Tensor p, Tensor {POSITION}) -> Tensor",
    check=lambda p, position: check_position("bernoulli", position),
    check_values=_check_probabilities,
    fake=lambda p, position: torch.empty_like(p),
    setup_context=_setup_bernoulli,
    backward=lambda ctx, grad: (torch.zeros_like(grad), None),  # as torch: a step function's
    dtypes=Dtypes(integers=(POSITION,)),
    host=(POSITION,),
    family=FAMILY,
)
