"""The exact functions of the reference against MPFR (through gmpy2)."""

from __future__ import annotations

import operator

import gmpy2
import mpfr
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from repdl.reference import exact
from repdl.reference.pointwise.pow import power
from repdl.testing import doubles

CASES = {
    **{name: f for name, f in vars(exact).items() if isinstance(f, exact.correctly_rounded)},
    "pow": power,
}
UNARY = [name for name, function in CASES.items() if function.operands == 1]

SPECIAL = [
    *(0x00000000, 0x80000000, 0x7F800000, 0xFF800000),  # zeros, infinities
    *(0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF),  # NaNs, signalling ones too
    *(0x00000001, 0x007FFFFF, 0x00800000, 0x80000001),  # the subnormals' ends
    *(0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF),
    *(0x3F7FFFFF, 0x3F800000, 0x3F800001, 0xBF800000),  # around 1, where log is small
]
HARD = [
    *(0x3C413D3A, 0x41178FEB, 0x4C5D65A5, 0x65D890D3, 0x6F31A8EC),  # patched in log.hpp
    *(0x3B429D37, 0xBCF3A937, 0x0EFEEE7A),  # patched in exp2.hpp, log10.hpp
    *(0xB53FFFFD, 0x35400003, 0xB70FFFE5, 0x3710001B, 0xBB0EC8C4, 0x3EFD81AD, 0x41078FEB),  # in log1p.hpp
    *(0x3940EAD6, 0xB940EAD6),  # in erf.hpp
    *(0xC3160000, 0xC3160001, 0xC315FFFF, 0x42FFFFFF, 0x43000000),  # exp2: 2**-150, around it, inf
    *(0x42C80000, 0x501502F9),  # log10: exact
    *(0x46199998, 0xC6199998, 0x5F18B878, 0x6115CB11, 0x7908CD73),  # in sin.hpp
    *(0x49800000, 0x49800001, 0xC9800001, 0x3FC90FDB, 0x40490FDB),  # sin, cos: reduction, near zeros
    *(0x5FFD33A4, 0x5D5873AE, 0x7714B423, 0x453C5846, 0xC08174DD),  # tan: near a midpoint
    *(0x42B17217, 0x42B17218, 0x42B17219),  # exp: the last finite result, inf
    *(0xC2AEAC4F, 0xC2AEAC50, 0xC2AEAC51),  # exp: the smallest normal, subnormals
    *(0xC2CFF1B4, 0xC2CFF1B5, 0xC2CFF1B6),  # exp: 2**-149, +0
    *(0x33000000, 0x33800000, 0xB2800000, 0xB3000000),  # exp: 1 + x near a midpoint
    *(0xBA928601, 0x36180000, 0xB61C0000, 0x370E0000, 0xB69E0000),  # sigmoid: near a midpoint, the first one patched
    *(0x411102C6, 0xC1102CB4, 0xC18AA123, 0x41851592),  # near the last results other than 1, -1
]


def assert_right(name: str, *operands: np.ndarray) -> None:
    """The reference's bits on these arguments, patterns of float32 or float64, are those of MPFR."""
    columns = [x if x.dtype == np.float64 else x.astype(np.uint32).view(np.float32) for x in operands]
    got, right = CASES[name](*columns), mpfr.correct(name, *columns)
    assert got.dtype == right.dtype
    for *arguments, result, expected in zip(*columns, got, right):
        at = ", ".join(float(x).hex() for x in arguments)
        assert result.tobytes() == expected.tobytes(), f"{name}({at}) is {result!r}, not {expected!r}"


@pytest.mark.parametrize("name", UNARY)
def test_exact__special_values(name: str) -> None:
    assert_right(name, np.array(SPECIAL))


@pytest.mark.parametrize("name", UNARY)
def test_exact__hard_arguments(name: str) -> None:
    assert_right(name, np.array(HARD))


@pytest.mark.parametrize("name", UNARY)
def test_exact__all_exponents(name: str) -> None:
    rng = np.random.default_rng(0)
    mantissas = rng.integers(0, 1 << 23, size=(512, 4))
    assert_right(name, ((np.arange(512) << 23)[:, None] | mantissas).reshape(-1))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("exp", -104, 89), ("exp", -104, -87), ("exp", -1, 1), ("log", 0.5, 2), ("log", 0, 1e-38)]
    + [("expm1", -20, 89), ("expm1", -1, 1), ("sigmoid", -105, 20), ("sigmoid", -0.001, 0.001)]
    + [("exp2", -151, 129), ("exp2", -150, -126), ("exp2", -0.01, 0.01), ("log1p", -1, 1), ("log1p", -1e-3, 1e-3)]
    + [("log2", 0.5, 2), ("log10", 0.5, 2), ("rsqrt", 0.25, 4), ("erf", -4, 4), ("erf", -0.01, 0.01)]
    + [(name, -size, size) for name in ("sin", "cos", "tan") for size in (1.6, 100, 2.0**20, 2.0**30, 3e38)]
    + [("tanh", -10, 10), ("tanh", -0.01, 0.01)]
    + [(name, -1, 1) for name in ("acos", "asin", "atanh", "erfinv", "sinh", "cosh", "asinh", "atan")]
    + [(name, 0.99, 1) for name in ("acos", "asin", "atanh", "erfinv")]
    + [("acosh", 1, 1.01), ("acosh", 1, 1000), ("asinh", -1e6, 1e6), ("atan", -100, 100)]
    + [("sinh", -90, 90), ("cosh", -90, 90), ("erfc", -4, 4), ("erfc", 9, 10.1), ("erfc", -0.01, 0.01)],
)
def test_exact__ranges(name: str, low: float, high: float) -> None:
    values = np.random.default_rng(1).uniform(low, high, 300).astype(np.float32)
    assert_right(name, values.view(np.uint32))


@pytest.mark.parametrize("name", UNARY)
@settings(deadline=None)
@given(pattern=st.integers(0, 0xFFFFFFFF))
@example(pattern=0x3F800000)
def test_exact__any_argument(name: str, pattern: int) -> None:
    assert_right(name, np.array([pattern]))


@pytest.mark.parametrize(
    ("name", "argument", "result"),
    [
        ("exp", 0x80000000, 0x3F800000),
        ("exp", 0xFF800000, 0x00000000),
        ("exp", 0x7F800000, 0x7F800000),
        ("exp", 0x42B17218, 0x7F800000),
        ("exp", 0xC2CFF1B4, 0x00000001),
        ("exp", 0xC2CFF1B5, 0x00000000),
        ("exp", 0xFFC12345, 0x7FC00000),
        ("log", 0x00000000, 0xFF800000),
        ("log", 0x80000000, 0xFF800000),
        ("log", 0x3F800000, 0x00000000),
        ("log", 0xBF800000, 0x7FC00000),
        ("log", 0xFF800000, 0x7FC00000),
        ("log", 0x7F800000, 0x7F800000),
        ("log", 0x00000001, 0xC2CE8ED0),
        ("log", 0x3C413D3A, 0xC08E158F),
        ("log", 0x41178FEB, 0x400FE5E7),
        ("log", 0x4C5D65A5, 0x418F034B),
        ("log", 0x65D890D3, 0x4254D1F9),
        ("log", 0x6F31A8EC, 0x42845A89),
    ],
)
def test_exact__pinned_bits(name: str, argument: int, result: int) -> None:
    got = CASES[name](np.array([argument], dtype=np.uint32).view(np.float32))
    assert got.view(np.uint32).tolist() == [result]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)])
def test_exact__shapes(name: str, shape: tuple[int, ...]) -> None:
    result = CASES[name](np.ones(shape, dtype=np.float32))
    assert result.shape == shape
    assert result.dtype == np.float32


def test_exact__rounded_twice_is_caught() -> None:
    """log rounded to float64 first is wrong where the header has patches."""
    for pattern in HARD[:5]:
        x = float(np.uint32(pattern).view(np.float32))
        with gmpy2.context(precision=53):
            twice = np.float32(float(gmpy2.log(gmpy2.mpfr(x))))
        assert twice != mpfr.correct("log", np.array([x], np.float32))


def test_exact__atan2() -> None:
    special = np.array(SPECIAL, dtype=np.uint32).view(np.float32)
    tiny = (np.arange(1, 40, 2) * 2.0**-149).astype(np.float32)  # quotients by 2 are midpoints
    values = np.concatenate([special, tiny, -tiny, np.array([2, -2, 3, -7, 1e-3, 2.0**100], np.float32)])
    y, x = (a.reshape(-1) for a in np.meshgrid(values, values))
    assert_right("atan2", y.view(np.uint32), x.view(np.uint32))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_exact__float64(name: str, count: int) -> None:
    """Special values, each binade, every fifth edge, hard arguments, random ones."""
    every = 5 if count == 400 else 1
    kinds = [
        doubles.special(name),
        doubles.binades(name),
        tuple(x[::every] for x in doubles.edges(name)),
        doubles.hard(name)[:-1],
        doubles.random(name, count),
    ]
    assert_right(name, *(np.concatenate(columns) for columns in zip(*kinds)))


@pytest.mark.parametrize("name", CASES)
def test_exact__hard_results_in_float64(name: str) -> None:
    *arguments, results = doubles.hard(name)
    assert len(results) >= 40
    assert CASES[name](*arguments).tobytes() == results.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_exact__rounding_through_a_third_format_is_caught(name: str) -> None:
    """64 bits, then 53: hard arguments of every function find this."""
    *arguments, results = doubles.hard(name)
    with gmpy2.context(precision=64):
        function = mpfr.COMPOSED.get(name) or (operator.pow if name == "pow" else getattr(gmpy2, name))
        twice = [float(function(*map(gmpy2.mpfr, row))) for row in zip(*(x.tolist() for x in arguments))]
    assert (np.array(twice).view(np.uint64) != results.view(np.uint64)).any()
