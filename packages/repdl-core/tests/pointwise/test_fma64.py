"""The float64 fused multiply-add of the reference, against MPFR."""

from __future__ import annotations

import random
import struct

import gmpy2
import numpy as np
import pytest

from repdl.reference.arithmetic import fma64

MPFR = gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True)
"""IEEE binary64: MPFR's exponents are one larger."""

CORNERS = [0.0, -0.0, 1.0, -1.0, 2.0**-1074, -(2.0**-1074), 2.0**-1022, 1 + 2.0**-52, 1 - 2.0**-53]
CORNERS += [1.7976931348623157e308, -1.7976931348623157e308, float("inf"), float("-inf"), float("nan")]


def exact(a: float, b: float, c: float) -> float:
    with gmpy2.context(MPFR):
        return float(gmpy2.fma(gmpy2.mpfr(a), gmpy2.mpfr(b), gmpy2.mpfr(c)))


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    for x, y, z, actual in zip(a, b, c, fma64(a, b, c)):
        expected = exact(float(x), float(y), float(z))
        same = actual.tobytes() == np.float64(expected).tobytes() or (np.isnan(actual) and np.isnan(expected))
        assert same, (x.hex(), y.hex(), z.hex(), actual.hex(), expected.hex())


def draw(rng: random.Random) -> float:
    kind = rng.randrange(4)
    if kind == 0:
        return float(struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0])
    if kind == 1:
        return rng.uniform(-1, 1) * 2.0 ** rng.randint(-60, 60)
    if kind == 2:
        return (rng.getrandbits(53) | 1) * 2.0 ** rng.randint(-1074, -900)
    return rng.choice(CORNERS)


@pytest.mark.parametrize("seed", range(4))
def test_fma64__random_cancelling_and_tiny_addends(seed: int) -> None:
    rng = random.Random(seed)
    rows = []
    for _ in range(5000):
        a, b, c = draw(rng), draw(rng), draw(rng)
        kind, product = rng.randrange(3), a * b
        if kind == 0 and np.isfinite(product):
            c = -product * (1 + rng.choice([0, 1, -1, 2, 3]) * 2.0 ** -rng.randint(40, 60))
        elif kind == 1 and abs(product) < 2.0**900:
            c = product * 2.0 ** rng.choice([-107, -106, -54, -53, -52, 52, 53, 54, 55, 105]) * rng.choice([1, -1])
        rows.append((a, b, c))
    check(*np.array(rows).T)


def test_fma64__corners() -> None:
    grid = np.array([(a, b, c) for a in CORNERS for b in CORNERS for c in CORNERS])
    check(*grid.T)


def test_fma64__a_trap_that_two_roundings_fall_into() -> None:
    a, b, c = np.array([1 + 2.0**-52]), np.array([1 - 2.0**-53]), np.array([-1.0])
    assert fma64(a, b, c)[0] != a[0] * b[0] + c[0]
    # a * b is just above the midpoint of 1 and its neighbour, by less than a double's last bit.
    x, y, z = np.array([1 + 2.0**-30]), np.array([2.0**-53 + 2.0**-90]), np.array([1.0])
    assert fma64(x, y, z)[0] == exact(x[0], y[0], z[0]) == 1 + 2.0**-52


def test_fma64__scalars_and_broadcasting() -> None:
    tiny = np.float64(2.0**-600)
    assert fma64(tiny, tiny, np.float64(2.0**-1074)).shape == ()
    assert fma64(tiny, tiny, np.float64(2.0**-1074))[()] == 2.0**-1074
    assert fma64(np.ones((3, 1)), np.ones(4), tiny).shape == (3, 4)
