"""Distributions (distributions.md): parts of draws, ends of the ranges, dtypes, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from repdl import ops
from repdl.dtypes import FLOATS_16_BIT
from repdl.errors import RepDLError
from repdl.reference.sampling.distributions import direction, log_double
from repdl.registry import OPS, functions
from repdl.testing import assert_same_bits
from repdl.testing.cases.sampling.distributions import OPTIONS
from repdl.testing.cases.sampling.random import like, position

DRAWN = [
    (op, dtype) for op in OPTIONS for dtype in (torch.float32, torch.float64, *FLOATS_16_BIT) if OPS[op].takes(dtype)
]


def options(op: str) -> tuple[float, ...]:
    return next(iter(OPTIONS[op].values()))


@pytest.mark.parametrize(("op", "dtype"), DRAWN)
def test_distributions__parts_are_the_whole(op: str, dtype: torch.dtype) -> None:
    seed, stream, offset = 3, 2**40, 2**34 - 9
    draw = getattr(functions, op)
    whole = draw(like(20, dtype=dtype), torch.tensor([seed, stream, offset]), *options(op))
    for first in (0, 1, 7, 10, 13):
        parts = [
            draw(like(n, dtype=dtype), torch.tensor([seed, stream, offset + start]), *options(op))
            for start, n in ((0, first), (first, 20 - first))
        ]
        assert_same_bits(torch.cat(parts), whole, f"{op}: {first} and {20 - first}")


@pytest.mark.parametrize(("op", "dtype"), DRAWN)
def test_distributions__halves_are_rounded_once(op: str, dtype: torch.dtype) -> None:
    draw = getattr(functions, op)
    single = draw(like(50), position(), *options(op))
    if dtype in FLOATS_16_BIT:
        assert_same_bits(draw(like(50, dtype=dtype), position(), *options(op)), ops.cast(single, dtype))


def test_distributions__uniform_stays_below_high() -> None:
    """Where rounding would reach it: in float32, and in halves, whose limit is theirs."""
    for dtype, low, high in ((torch.float32, 1.0, 1.0 + 2.0**-22), (torch.bfloat16, 0.0, 1.0), (torch.float16, 0, 1)):
        limit = float(torch.nextafter(torch.tensor(high, dtype=dtype), torch.tensor(low, dtype=dtype)))
        x = functions.uniform(like(20_000, dtype=dtype), position(), low, high, limit)
        assert x.dtype is dtype and low <= float(x.min()) and float(x.max()) == limit < high
    assert float(functions.uniform(like(9), position(), 0.25, 0.25, 0.25).max()) == 0.25


def test_distributions__float64_has_53_bits() -> None:
    u = functions.uniform(like(1000, dtype=torch.float64), position(), 0.0, 1.0, 1.0 - 2.0**-53)
    whole = (u * 2.0**53).to(torch.int64)
    assert torch.equal(whole.double() * 2.0**-53, u) and int((whole & 0xFFFFFFF).unique().numel()) > 990
    single = functions.uniform(like(1000), position(), 0.0, 1.0, 1.0 - 2.0**-24)
    assert torch.equal((u * 2.0**24).floor() * 2.0**-24, single.double()), "the same leading bits"


def test_distributions__the_ends_of_the_exponential() -> None:
    """The largest and the smallest word, by which no draw of a test comes: their formulas."""
    smallest = ops.log(torch.tensor(2.0**-33))
    assert -float(smallest) == pytest.approx(33 * math.log(2))
    e = functions.exponential(like(200_000), position(), 1.0)
    assert float(e.min()) > 0 and float(e.max()) <= -float(smallest)


def test_distributions__double_functions_are_near_those_of_the_c_library() -> None:
    """Within 4 units of 2**-53, which leaves the C library one or two."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random(5000), 2.0 ** -rng.uniform(0, 65, 5000), 1 - 2.0 ** -rng.uniform(1, 53, 5000)])
    assert np.abs(log_double(x) / np.log(x) - 1)[x != 1].max() < 4 * 2.0**-53
    assert log_double(np.ones(1)) == 0
    turn = rng.integers(0, 2**64, 5000, dtype=np.uint64)
    cosine, sine = direction(turn)
    exact = turn.astype(np.longdouble) / 2**64 * 2 * np.pi
    assert np.abs(cosine - np.cos(exact)).max() < 2.0**-48 and np.abs(sine - np.sin(exact)).max() < 2.0**-48
    assert np.abs(cosine**2 + sine**2 - 1).max() < 8 * 2.0**-53
    quarters = np.arange(4, dtype=np.uint64) << np.uint64(62)
    assert [direction(quarters)[i].tolist() for i in (0, 1)] == [[1, 0, -1, 0], [0, 1, 0, -1]]


def test_distributions__probabilities_0_and_1() -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        p = torch.tensor([0.0, 1.0], dtype=dtype).repeat(500)
        assert torch.equal(functions.bernoulli(p, position()), p)
    assert functions.bernoulli_scalar(like(1000), position(), 1.0).eq(1).all()
    assert functions.bernoulli_scalar(like(1000), position(), 0.0).eq(0).all()


def test_distributions__one_number_an_element_in_every_way() -> None:
    """The tensor's and the scalar's Bernoulli draws, and those of both dtypes, are of the same words."""
    expected = functions.bernoulli_scalar(like(300), position(), 0.25)
    assert torch.equal(functions.bernoulli(torch.full((300,), 0.25), position()), expected)
    double = functions.bernoulli_scalar(like(300, dtype=torch.float64), position(), 0.25)
    assert torch.equal(double.float(), expected)


def test_distributions__poisson() -> None:
    assert functions.poisson(torch.zeros(100), position()).eq(0).all()
    rate = torch.full((300,), 40.0, requires_grad=True)
    x = functions.poisson(rate, position())
    assert torch.equal(x, x.detach().round()) and 15 < float(x.detach().min()) < float(x.detach().max()) < 80
    (grad,) = torch.autograd.grad(x.sum(), rate)
    assert torch.equal(grad, torch.zeros(300)), "as torch.poisson"
    seed, stream, offset = position().tolist()
    parts = (
        functions.poisson(rate[:7], position()),
        functions.poisson(rate[7:], torch.tensor([seed, stream, offset + 7])),
    )
    assert_same_bits(torch.cat(parts), x)


def test_distributions__truncated_normals_are_inside() -> None:
    for a, b in ((-2.0, 2.0), (0.3, 0.31), (5.0, math.inf), (-math.inf, -6.0), (-1.0, 40.0), (2.0, 2.0)):
        for dtype in (torch.float32, torch.float64):
            x = functions.truncated_normal(like(2000, dtype=dtype), position(), 0.5, 1.25, a, b)
            low, high = (float(torch.tensor(end, dtype=dtype)) for end in (a, b))
            assert low <= float(x.min()) and float(x.max()) <= high and x.isfinite().all(), (a, b)


WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "uniform": ((2.0, 1.0, 1.0), "low is 2.0 and high is 1.0, expected low <= high"),
    "uniform ": ((math.nan, 1.0, 1.0), "low is nan"),
    "uniform  ": ((-3e38, 3e38, 1.0), "high - low <= 3.4"),
    "normal": ((0.0, -1.0), "std is -1.0, expected 0 or more"),
    "normal ": ((0.0, math.nan), "std is nan"),
    "exponential": ((0.0,), "lambd is 0.0, expected more than 0"),
    "bernoulli_scalar": ((1.5,), "p is 1.5, expected a probability, 0 to 1"),
    "bernoulli_scalar ": ((math.nan,), "p is nan"),
    "truncated_normal": ((0.0, 0.0, -1.0, 1.0), "std is 0.0"),
    "truncated_normal ": ((0.0, 1.0, 1.0, -1.0), "a is 1.0 and b is -1.0, expected a <= b"),
    "truncated_normal  ": ((0.0, 1e-30, 1.0, 2.0), "within 2.*60 standard deviations"),
}


@pytest.mark.parametrize("name", WRONG)
def test_distributions__errors(name: str) -> None:
    given, message = WRONG[name]
    with pytest.raises(RepDLError, match=f"{name.strip()}: .*{message}"):
        getattr(functions, name.strip())(like(3), position(), *given)


@pytest.mark.parametrize("value", [-0.1, 2.0**41, math.inf, math.nan])
def test_distributions__wrong_rates_are_named(value: float) -> None:
    rate = torch.full((2, 3), 0.5, dtype=torch.float64)
    rate[0, 1] = value
    with pytest.raises(RepDLError, match=r"poisson: rate\[0, 1\] is .*, expected a rate from 0 to 2\*\*40"):
        functions.poisson(rate, position())


@pytest.mark.parametrize("value", [-0.1, 1.5, math.nan])
def test_distributions__wrong_probabilities_are_named(value: float) -> None:
    p = torch.full((2, 3), 0.5)
    p[1, 2] = value
    with pytest.raises(RepDLError, match=r"bernoulli: p\[1, 2\] is .*, expected a probability"):
        functions.bernoulli(p, position())


def test_distributions__require_no_gradient() -> None:
    x = torch.zeros(5, requires_grad=True)
    assert not functions.normal(x, position(), 0.0, 1.0).requires_grad
    p = torch.full((5,), 0.5, requires_grad=True)
    (grad,) = torch.autograd.grad(functions.bernoulli(p, position()).sum(), p)
    assert torch.equal(grad, torch.zeros(5)), "as torch.bernoulli"


def test_distributions__compiled() -> None:
    def draw(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        after = at.clone()
        after[2] += x.numel()
        return functions.normal(x, at, 0.0, 2.0), functions.uniform(x, after, 0.0, 1.0, 1.0 - 2.0**-24)

    compiled: Callable[..., Any] = torch.compile(draw, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (3, 10, 11):
        for offset in (0, 5):
            at = torch.tensor([1, 2, offset])
            assert_same_bits(list(compiled(torch.zeros(n), at)), list(draw(torch.zeros(n), at)))
