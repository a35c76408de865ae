"""Whether draws are as likely as they should be: frequencies, distribution functions, moments, correlations.

Seeds are fixed, so the outcome is the same on every machine: a failure is an error in a formula, not bad luck.
Each statistic is compared with what chance exceeds once in a million; the nightly session does so with
thirty times as many draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from repdl.registry import functions
from repdl.testing.cases.sampling.random import like

Numbers = NDArray[np.float64]

RARE = 4.9
"""Standard deviations that a normal number exceeds once in a million, on either side."""
KS_RARE = 2.69
"""sqrt(n) times the distance of distribution functions that chance exceeds once in a million: 2 exp(-2 x**2)."""
SIZES = pytest.mark.parametrize("n", [10**6, pytest.param(3 * 10**7, marks=pytest.mark.nightly)])


def at(seed: int = 1, stream: int = 0, offset: int = 0) -> torch.Tensor:
    return torch.tensor([seed, stream, offset])


def chi_square(counts: Numbers, probabilities: Numbers, what: str) -> None:
    """Raise unless frequencies are what the probabilities let expect: Wilson and Hilferty's cube root is normal."""
    expected = probabilities * counts.sum()
    assert expected.min() > 5, what
    degrees = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    spread = math.sqrt(2 / (9 * degrees))
    z = ((statistic / degrees) ** (1 / 3) - (1 - spread**2)) / spread
    assert abs(z) < RARE, f"{what}: chi-square {statistic:.1f} of {degrees} degrees of freedom, {z:.2f} deviations"


def kolmogorov_smirnov(x: Numbers, distribution: Callable[[Numbers], Numbers], what: str) -> None:
    """Raise unless the empirical distribution function is near the one given, which is continuous."""
    n = x.size
    f = distribution(np.sort(x))
    steps = np.arange(n + 1) / n
    distance = math.sqrt(n) * max(float((steps[1:] - f).max()), float((f - steps[:-1]).max()))
    assert distance < KS_RARE, f"{what}: {distance:.2f}"


def mean_is(x: Numbers, mean: float, deviation: float, what: str) -> None:
    z = (float(x.mean()) - mean) / (deviation / math.sqrt(x.size))
    assert abs(z) < RARE, f"{what}: mean {x.mean():.6f}, expected {mean:.6f}, {z:.2f} deviations"


def uncorrelated(x: Numbers, y: Numbers, what: str) -> None:
    r = float(((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std()))
    assert abs(r) * math.sqrt(x.size) < RARE, f"{what}: correlation {r:.6f}"


def test_statistics__can_fail() -> None:
    """A distribution that is a little off is found by each."""
    x = np.linspace(0, 1, 10**6, endpoint=False)
    kolmogorov_smirnov(x, lambda x: x, "even")
    for found in (
        lambda: kolmogorov_smirnov(x**1.02, lambda x: x, "bent"),
        lambda: chi_square(np.array([5e5, 4.9e5]), np.full(2, 0.5), "unequal"),
        lambda: chi_square(np.full(100, 1e4), np.full(100, 0.01), "too even"),
        lambda: mean_is(x**1.02, 0.5, math.sqrt(1 / 12), "bent"),
        lambda: uncorrelated(x[:1000], x[:1000] ** 2, "the same"),
    ):
        with pytest.raises(AssertionError):
            found()


_erf = np.vectorize(math.erf)


def phi(x: Numbers) -> Numbers:
    """The normal distribution function, by interpolation in a table that is finer than what tests see."""
    table = np.linspace(-9, 9, 20_001)
    return np.asarray(np.interp(x, table, (1 + _erf(table / math.sqrt(2))) / 2))


def numbers(
    op: str, n: int, *options: float, position: torch.Tensor | None = None, dtype: torch.dtype = torch.float32
) -> Numbers:
    drawn = getattr(functions, op)(like(n, dtype=dtype), at() if position is None else position, *options)
    return np.asarray(drawn.numpy(), dtype=np.float64)


UNIT = (0.0, 1.0, 1.0 - 2.0**-24)


def words(n: int, position: torch.Tensor, plane: int = 0) -> NDArray[np.uint32]:
    return functions.random_words(like(n, dtype=torch.int32), position, plane).numpy().view(np.uint32)


@SIZES
def test_statistics__words(n: int) -> None:
    """Every byte, every bit, and pairs of following words."""
    w = words(n, at(3))
    for shift in (0, 8, 16, 24):
        counts = np.bincount((w >> np.uint32(shift)) & np.uint32(255), minlength=256).astype(float)
        chi_square(counts, np.full(256, 1 / 256), f"byte {shift // 8}")
    ones = np.array([float(((w >> np.uint32(bit)) & np.uint32(1)).sum()) for bit in range(32)])
    assert np.abs(ones - n / 2).max() < RARE * math.sqrt(n) / 2
    for step in (1, 2, 4):  # neighbours in a block, and in the same place of following blocks
        for shift in (0, 12, 27):
            five = (w >> np.uint32(shift)) & np.uint32(31)
            pairs = np.bincount(five[:-step] * np.uint32(32) + five[step:], minlength=1024).astype(float)
            chi_square(pairs, np.full(1024, 1 / 1024), f"pairs {step} apart, bits from {shift}")


@SIZES
def test_statistics__uniform(n: int) -> None:
    for dtype, limit in ((torch.float32, UNIT[2]), (torch.float64, 1.0 - 2.0**-53)):
        u = numbers("uniform", n, 0.0, 1.0, limit, dtype=dtype)
        kolmogorov_smirnov(u, lambda x: x, f"uniform {dtype}")
        mean_is(u, 0.5, math.sqrt(1 / 12), "uniform")
        mean_is((u - 0.5) ** 2, 1 / 12, math.sqrt(1 / 180), "its variance")
        counts = np.bincount((u * 1000).astype(int), minlength=1000).astype(float)
        chi_square(counts, np.full(1000, 1 / 1000), "thousandths")


@SIZES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_statistics__normal(n: int, dtype: torch.dtype) -> None:
    z = numbers("normal", n, 0.0, 1.0, dtype=dtype)
    kolmogorov_smirnov(z, phi, "normal")
    mean_is(z, 0, 1, "normal")
    mean_is(z**2, 1, math.sqrt(2), "its variance")
    mean_is(z**3, 0, math.sqrt(15), "its skewness")
    mean_is(z**4, 3, math.sqrt(96), "its kurtosis")
    edges = np.concatenate([np.linspace(-3.5, 3.5, 71), [math.inf]])
    counts, _ = np.histogram(z, np.concatenate([[-math.inf], edges]))
    chi_square(counts.astype(float), np.diff(np.concatenate([[0.0], phi(edges[:-1]), [1.0]])), "normal")
    uncorrelated(z[::2], z[1::2], "the two of a pair")
    uncorrelated(z[::2] ** 2, z[1::2] ** 2, "the squares of the two of a pair")


@SIZES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_statistics__exponential(n: int, dtype: torch.dtype) -> None:
    e = numbers("exponential", n, 2.0, dtype=dtype)
    kolmogorov_smirnov(e, lambda x: 1 - np.exp(-2 * x), "exponential")
    mean_is(e, 0.5, 0.5, "exponential")
    mean_is((e - 0.5) ** 2, 0.25, math.sqrt(8 / 16), "its variance")


@SIZES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_statistics__truncated_normal(n: int, dtype: torch.dtype) -> None:
    """Each way of rejection: normal, uniform on either side of 0 and across, the tail, and mirrored ones."""
    for low, high in ((-2.0, 2.0), (0.4, 3.0), (-0.5, 0.7), (1.0, 1.5), (2.0, 9.0), (-9.0, -3.0), (-math.inf, -1.0)):
        z = numbers("truncated_normal", n // 10, 0.5, 2.0, 0.5 + 2 * low, 0.5 + 2 * high, dtype=dtype)
        first, last = phi(np.array([low, high]).clip(-9, 9))
        kolmogorov_smirnov((z - 0.5) / 2, lambda x: (phi(x) - first) / (last - first), f"{low} to {high}")


@SIZES
def test_statistics__bernoulli_and_dropout(n: int) -> None:
    for p in (0.5, 0.01, 1 / 3):
        happened = numbers("bernoulli_scalar", n, p)
        mean_is(happened, p, math.sqrt(p * (1 - p)), f"p = {p}")
        uncorrelated(happened[:-1], happened[1:], f"p = {p}")
    kept = np.asarray(functions.dropout(torch.ones(n), at(), 0.2).numpy(), np.float64)
    mean_is(kept, 1.0, math.sqrt(1.25**2 * 0.8 - 1), "dropout keeps the mean")


def poisson_probabilities(rate: float, most: int) -> Numbers:
    """Of 0, 1, ... most - 1, and of all above."""
    p = np.array([math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(most)])
    return np.concatenate([p, [1 - p.sum()]])


@SIZES
def test_statistics__poisson(n: int) -> None:
    """Both methods, on both sides of the rate where one gives way to the other, and large rates."""
    for rate in (0.1, 3.0, 29.5, 30.0, 200.0):
        x = functions.poisson(torch.full((n // 4,), rate), at(13)).numpy()
        spread = 4.5 * math.sqrt(rate) + 2
        first, last = max(0, int(rate - spread)), int(rate + spread)
        p = poisson_probabilities(rate, last)
        p = np.concatenate([[p[: first + 1].sum()], p[first + 1 :]])
        counts = np.bincount((x.astype(int) - first).clip(0, last - first), minlength=len(p)).astype(float)
        keep = p * len(x) > 6
        counts, p = np.append(counts[keep], counts[~keep].sum()), np.append(p[keep], p[~keep].sum())
        if p[-1] * len(x) <= 6:
            counts, p = counts[:-1], p[:-1]
        chi_square(counts, p / p.sum(), f"Poisson of {rate}")
    for rate in (1e4, 2.0**40):
        x = functions.poisson(torch.full((n // 4,), rate, dtype=torch.float64), at(14)).numpy()
        mean_is(x, rate, math.sqrt(rate), f"Poisson of {rate}")
        mean_is((x - rate) ** 2, rate, math.sqrt(rate + 2 * rate**2), f"its variance, of {rate}")
    kolmogorov_smirnov((x - rate) / math.sqrt(rate), phi, "nearly normal")


@SIZES
def test_statistics__integers(n: int) -> None:
    whole = like(n, dtype=torch.int64)
    for size in (2, 10, 1000, 3 * 2**30, 3 * 2**61):
        x = functions.random_integers(whole, at(5), -7, size - 7).numpy() + 7
        bins = min(size, 48)
        counts = np.bincount(x if size == bins else (x // (size // bins)).clip(0, bins - 1), minlength=bins)
        width = np.full(bins, size // bins, dtype=float)
        width[-1] += size - width.sum()
        chi_square(counts.astype(float), width / width.sum(), f"integers below {size}")


def test_statistics__permutations() -> None:
    """All orders of four come equally often, and no place of a long one keeps its element too often."""
    orders = [
        tuple(functions.random_permutation(like(4, dtype=torch.int64), at(7, 0, 4 * i)).tolist()) for i in range(6000)
    ]
    counts = np.array([orders.count(order) for order in sorted(set(orders))], dtype=float)
    assert len(counts) == 24
    chi_square(counts, np.full(24, 1 / 24), "orders of four")
    n = 10**6
    order = functions.random_permutation(like(n, dtype=torch.int64), at(8)).numpy().astype(np.float64)
    uncorrelated(order, np.arange(n, dtype=float), "place and element")
    uncorrelated(order[:-1], order[1:], "following elements")
    assert int((order == np.arange(n)).sum()) < 12, "fixed points are Poisson with mean 1"


def test_statistics__streams_seeds_and_planes_are_independent() -> None:
    """Neighbours of a position in each coordinate: no correlation, and no word that two of them share in place."""
    n = 200_000
    places = [(1, 0, 0), (2, 0, 0), (3, 0, 0), (1, 1, 0), (1, 2, 0), (1, 2**32, 0), (1, 2**47, 0), (2**32 + 1, 0, 0)]
    drawn = {f"{place}": words(n, at(*place)) for place in places}
    drawn |= {f"plane {plane}": words(n, at(1), plane) for plane in (1, 2, 3, 65535)}
    drawn["reversed"] = words(n, at(1))[::-1]
    for (a, x), (b, y) in combinations(drawn.items(), 2):
        what = f"{a} and {b}"
        uncorrelated(x.astype(float), y.astype(float), what)
        assert int((x == y).sum()) < 8, what
        same = float(np.unpackbits((x ^ y).view(np.uint8)).sum())
        assert abs(same - 16 * n) < RARE * math.sqrt(8 * n), what


@SIZES
def test_statistics__serial_correlation(n: int) -> None:
    u = numbers("uniform", n, *UNIT, position=at(11))
    for lag in (1, 2, 3, 4, 5, 7, 8, 16, 1024, 4096):
        uncorrelated(u[:-lag], u[lag:], f"lag {lag}")
    runs = np.diff(np.flatnonzero(np.diff((u > 0.5).astype(np.int8)) != 0))  # lengths are geometric
    lengths = np.bincount(runs.clip(1, 12), minlength=13)[1:].astype(float)
    chi_square(lengths, np.array([*(0.5**k for k in range(1, 12)), 0.5**11]), "lengths of runs")
