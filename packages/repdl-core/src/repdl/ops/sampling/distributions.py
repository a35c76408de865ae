"""Draws of floating-point numbers.

The registered ops are what `repdl.random` is built of; they have no public functions of their own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from repdl.dtypes import Dtypes
from repdl.errors import check, check_range
from repdl.ops.declare import POSITION, check_place, check_position, check_probability, draw
from repdl.registry import define
from repdl.tensors.values import assert_on_device

__all__: list[str] = []


FAMILY = "distributions"
ANY = Dtypes(integers=(POSITION,), shape_only=("like",))


def _check_uniform(like: Tensor, low: float, high: float, limit: float) -> None:
    op, most = "uniform", torch.finfo(like.dtype).max
    check(
        op,
        -most <= low <= high <= most and high - low <= most,
        lambda: f"low is {low} and high is {high}, expected low <= high and high - low <= {most}, finite",
    )
    check(op, -math.inf < limit < math.inf, lambda: f"limit is {limit}, expected a finite number")


def _check_normal(std: float) -> None:
    check("normal", std >= 0.0, lambda: f"std is {std}, expected 0 or more")


def _check_exponential(lambd: float) -> None:
    check("exponential", lambd > 0.0, lambda: f"lambd is {lambd}, expected more than 0")


def _check_truncated_normal(mean: float, std: float, a: float, b: float) -> None:
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
    check_options=_check_truncated_normal, dtypes=ANY, family=FAMILY,
)  # fmt: skip
draw(
    "bernoulli_scalar", "float p",
    check_options=check_probability, dtypes=ANY, family=FAMILY,
)  # fmt: skip


def check_within(op: str, name: str, values: Tensor, most: float, expected: str) -> None:
    """Raise unless every element is from 0 to `most`."""
    what = f"a number of {name} is out of range, expected {expected}"
    if values.numel() == 0 or assert_on_device(op, values, lambda v: (v >= 0) & (v <= most), what):
        return
    low, high = values.aminmax()  # NaN where one is
    if low >= 0 and high <= most:
        return
    where = tuple(int(i) for i in (~((values >= 0) & (values <= most))).nonzero()[0])
    check_range(op, False, f"{name}{list(where)} is {float(values[where])}, expected {expected}")


def _define_of(op: str, name: str, most: float, expected: str) -> None:
    """Register an op `(Tensor <name>, Tensor position) -> Tensor`, a draw for each element of `name`."""

    def check_values(*args: Tensor) -> None:
        values, position = args
        check_place(op, values.numel(), position)
        check_within(op, name, values, most, expected)

    define(
        op,
        f"(Tensor {name}, Tensor {POSITION}) -> Tensor",
        check=check_position,
        check_values=check_values,
        fake=lambda *args: torch.empty_like(args[0]),
        gradients={name: lambda g: torch.zeros_like(g)},  # as torch: a step function's
        dtypes=Dtypes(integers=(POSITION,)),
        host=(POSITION,),
        family=FAMILY,
    )


RATES = 2.0**40, "a rate from 0 to 2**40"
"""Up to which the logarithm of a double tells counts apart."""

_define_of("bernoulli", "p", 1.0, "a probability, 0 to 1")
_define_of("poisson", "rate", *RATES)
