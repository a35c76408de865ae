"""The functions of repdl.random: torch's signatures, what is drawn, and errors that leave the generator as it was."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import repdl
from repdl import ops, random
from repdl.errors import ArgumentError, DTypeError, OutOfRangeError, RepDLError, ShapeError, UnsupportedError
from repdl.generators import draws
from repdl.random import Generator
from repdl.random.multinomial import _product_high
from repdl.testing import assert_same_bits

FAST = "cpu" in (name for name, row in repdl.backends().items() if row.error is None)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FILLS: dict[str, Callable[..., torch.Tensor]] = {
    name: getattr(random, name)
    for name in (
        "uniform_",
        "normal_",
        "trunc_normal_",
        "exponential_",
        "cauchy_",
        "log_normal_",
        "bernoulli_",
        "random_",
    )
}


def g(seed: int = 0) -> Generator:
    return Generator(seed)


def test_random__every_public_name_has_a_text() -> None:
    for name in random.__dict__:
        function = getattr(random, name)
        if inspect.isfunction(function) and function.__module__.startswith("repdl.random.") and name[0] != "_":
            assert function.__doc__, name


def test_random__torchs_options() -> None:
    for function, args in ((random.rand, (3, 4)), (random.randn, ((3, 4),)), (random.randint, (9, (3, 4)))):
        x = function(*args, generator=g())
        out = torch.empty(2, dtype=x.dtype)
        assert x.shape == (3, 4) and x.dtype is (torch.int64 if function is random.randint else torch.float32)
        assert function(*args, generator=g(), out=out) is out and torch.equal(out, x)
        strided = torch.empty(4, 3, dtype=x.dtype).t()
        assert torch.equal(function(*args, generator=g(), out=strided), x) and strided.stride() == (1, 3)
        with pytest.raises(DTypeError, match=r"dtype is torch.bfloat16, expected that of out"):
            function(*args, out=out, dtype=torch.bfloat16)
        assert function(*args, device="cpu", layout=torch.strided, pin_memory=False).device.type == "cpu"
        assert function(*args, device="meta").is_meta
    assert random.rand(3, requires_grad=True).requires_grad and random.rand().shape == ()
    assert random.rand(size=(2, 3)).shape == random.randn(size=torch.Size([2, 3])).shape == (2, 3)
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            assert random.rand(2).dtype is dtype
        finally:
            torch.set_default_dtype(torch.float32)
    like = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
    drawn = random.randn_like(like, generator=g())
    assert drawn.stride() == like.stride() and torch.equal(drawn, random.randn(2, 3, 4, 5, generator=g()))
    assert random.rand_like(like, dtype=torch.float64, memory_format=torch.contiguous_format).is_contiguous()
    assert random.randint_like(like, 3, 9, dtype=torch.uint8).dtype is torch.uint8
    assert random.randint_like(like, 2).dtype is torch.float32
    assert random.rand_like(like, requires_grad=True).requires_grad
    assert random.randint(low=2, high=3, size=(2,)).tolist() == [2, 2]


def test_random__ends_of_intervals() -> None:
    for dtype in (*FLOATS, torch.float64):
        for low, high in (
            (0.0, 1.0),
            (-1.0, 0.0),
            (3.0, 3.0),
            (-0.3, 0.7),
            (1.0, 1.0 + 2 * torch.finfo(dtype).eps),
            (-2.0, -1.0),
            (0.0, 5.0),
            (0.0, 0.25),
            (-7.0, 1.0),
        ):
            x = random.uniform_(torch.empty(3000, dtype=dtype), low, high, generator=g())
            assert x.min() >= torch.tensor(low, dtype=dtype)
            assert x.max().double() - x.min().double() >= 0.9 * (high - low) or high - low < 0.1  # all of it
            assert (x.double() < high).all() if low < high else (x == high).all()
    assert random.rand(1 << 16, dtype=torch.bfloat16, generator=g()).max() == 1 - 2.0**-8


def test_random__strides_do_not_matter() -> None:
    for name, fill in FILLS.items():
        expected = fill(torch.empty(4, 6), generator=g())
        for tensor in (torch.empty(6, 4).t(), torch.empty(8, 12)[::2, ::2], torch.empty(4, 1, 6).squeeze(1)):
            assert fill(tensor, generator=g()) is tensor
            assert torch.equal(tensor, expected), name
        assert fill(torch.empty(0)).numel() == 0 and fill(torch.empty(3, device="meta")).is_meta


def test_random__halves_are_float32_rounded_once() -> None:
    for name in ("normal_", "exponential_", "cauchy_", "log_normal_", "geometric_"):
        args = (0.3,) if name == "geometric_" else ()
        single = getattr(random, name)(torch.empty(500), *args, generator=g())
        for dtype in FLOATS[1:]:
            half = getattr(random, name)(torch.empty(500, dtype=dtype), *args, generator=g())
            assert_same_bits(half, ops.cast(single, dtype))


def test_random__trials_beyond_a_dtype_are_its_largest_number() -> None:
    for dtype in INTEGERS:
        filled = random.geometric_(torch.empty(50, dtype=dtype), 1e-30, generator=g())
        most = torch.iinfo(dtype).max if dtype is not torch.int64 else 2**63 - 1024  # the largest that is a double
        assert filled.tolist() == [most] * 50, dtype


def test_random__moments() -> None:
    """Means within 5 standard errors; medians of the others within 5 / sqrt(n)."""
    n = 100_000 if FAST else 5_000
    x = torch.empty(n)
    cases: list[tuple[torch.Tensor, float, float]] = [
        (random.rand(n, generator=g()), 0.5, math.sqrt(1 / 12)),
        (random.rand(n, dtype=torch.float64, generator=g()), 0.5, math.sqrt(1 / 12)),
        (random.randn(n, generator=g()), 0, 1),
        (random.normal_(x.clone(), 3, 2, generator=g()), 3, 2),
        (random.trunc_normal_(x.clone(), generator=g()), 0, 0.8796),
        (random.trunc_normal_(x.clone(), a=3, b=9, generator=g()), 3.2831, 0.2659),
        (random.exponential_(x.clone(), 4, generator=g()), 0.25, 0.25),
        (random.log_normal_(x.clone(), 0, 0.5, generator=g()), math.exp(0.125), 0.604),
        (random.geometric_(x.clone(), 0.25, generator=g()), 4, math.sqrt(12)),
        (random.bernoulli_(x.clone(), 0.3, generator=g()), 0.3, math.sqrt(0.21)),
        (random.bernoulli(torch.full((n,), 0.9), generator=g()), 0.9, 0.3),
        (random.randint(-3, 4, (n,), generator=g()).float(), 0, 2),
        (random.normal(torch.full((n,), 2.0), 3.0, generator=g()), 2, 3),
    ]
    for sample, mean, std in cases:
        double = sample.double()
        assert abs(double.mean() - mean) <= 5 * std / math.sqrt(n)
        assert abs(double.std() / std - 1) <= 3 / math.sqrt(n) * 5
    cauchy = random.cauchy_(x, 1, 2, generator=g())
    for quantile, expected in ((0.25, -1), (0.5, 1), (0.75, 3)):
        assert abs(cauchy.quantile(quantile) - expected) < 20 / math.sqrt(n)


def test_random__float64_draws_are_no_float32_ones() -> None:
    for draw in (
        random.randn(50, dtype=torch.float64, generator=g()),
        random.normal(torch.zeros(50, dtype=torch.float64), 1.0, generator=g()),
        random.exponential_(torch.empty(50, dtype=torch.float64), generator=g()),
        random.rand(50, dtype=torch.float64, generator=g()),
        random.log_normal_(torch.empty(50, dtype=torch.float64), generator=g()),
        random.cauchy_(torch.empty(50, dtype=torch.float64), generator=g()),
    ):
        assert (draw != draw.float().double()).sum() > 45


def test_random__formulas_of_words() -> None:
    """What the text says, in numpy, of the words of planes 0 and 1."""
    n = 200
    words = ops_words(n, 2)
    turn = np.float32(words[0].astype(np.float32)) * (np.float32(math.pi) * np.float32(2.0**-32))
    exact = 3 * np.tan(turn.astype(np.float64)) + 2
    cauchy = random.cauchy_(torch.empty(n), 2, 3, generator=g()).double().numpy()
    assert (np.abs(cauchy - exact) <= 8 * 2.0**-24 * (1 + np.abs(exact - 2) + np.abs(exact))).all()
    angle = ((words[0].astype(np.int64) << 32) + words[1].view(np.uint32)).astype(np.float64) * (math.pi * 2.0**-64)
    exact = 3 * np.tan(angle) + 2
    cauchy = random.cauchy_(torch.empty(n, dtype=torch.float64), 2, 3, generator=g()).numpy()
    assert (np.abs(cauchy - exact) <= 8 * 2.0**-53 * (1 + np.abs(exact - 2) + np.abs(exact))).all()
    e = random.exponential_(torch.empty(n), generator=g()).double()
    trials = random.geometric_(torch.empty(n), 0.2, generator=g()).double()
    assert (trials - (e / -math.log1p(-0.2)).ceil()).abs().max() <= 1 and trials.min() == 1
    for dtype in (torch.float32, torch.float64):
        assert torch.equal(
            random.log_normal_(torch.empty(n, dtype=dtype), 1, 2, generator=g()),
            ops.exp(random.normal_(torch.empty(n, dtype=dtype), 1, 2, generator=g())),
        )
    z, mean, std = random.randn(2, 5, generator=g()), torch.arange(5.0), torch.tensor([[2.0], [3.0]])
    assert torch.equal(random.normal(mean, std, generator=g()), ops.add(ops.mul(z, std), mean))
    assert torch.equal(random.normal(0.5, std.expand(2, 5), generator=g()), ops.add(ops.mul(z, std), 0.5))
    assert torch.equal(
        random.normal(2.0, 3.0, (4,), generator=g()), random.normal_(torch.empty(4), 2, 3, generator=g())
    )


def ops_words(n: int, planes: int) -> list[Any]:
    like, position = torch.empty(n, dtype=torch.int32), g().position(n)
    return [torch.ops.repdl.random_words(like, position, plane).numpy() for plane in range(planes)]


def test_random__integers_of_every_dtype() -> None:
    for dtype in INTEGERS:
        info = torch.iinfo(dtype)
        for low, high in ((info.min, info.max + 1), (info.min, info.max), (0, info.max + 1), (info.max, info.max + 1)):
            x = random.random_(torch.empty(2000, dtype=dtype), low, high if high < 2**63 else None, generator=g())
            assert x.min() >= low and int(x.max()) <= high - 1
            if high - low > 2**8:  # some of the draws fall into each eighth
                counts = torch.bincount((x.double() - low).div((high - low) / 8).long().clamp(max=7), minlength=8)
                assert counts.min() > 150
    upper, lower = (words.astype(np.int64) for words in ops_words(50, 2))
    full = random.random_(torch.empty(50, dtype=torch.int64), -(2**63), None, generator=g())
    assert [int(x) + 2**63 for x in full] == [
        (a % 2**32) << 32 | b % 2**32 for a, b in zip(upper.tolist(), lower.tolist())
    ]
    for dtype, most in ((torch.float32, 2**24), (torch.bfloat16, 2**8), (torch.float16, 2**11)):
        x = random.random_(torch.empty(5000, dtype=dtype), generator=g()).double()
        assert x.max() <= most and x.min() >= 0 and x.max() > 0.99 * most and (x == x.round()).all()
    assert random.random_(torch.empty(99, dtype=torch.bool), generator=g()).sum() not in (0, 99)
    assert random.random_(torch.empty(99), 7, generator=g()).max() == 6
    for n in (0, 1, 2, 100):
        assert random.randperm(n).sort().values.tolist() == list(range(n))
    assert random.randperm(200, dtype=torch.uint8).dtype is torch.uint8


def test_random__multinomial() -> None:
    n = 100_000 if FAST else 20_000
    weights = torch.tensor([[1.0, 2.0, 0.0, 5.0], [3e-45, 3e-45, 0.0, -0.0], [1e38, 1e38, 1e38, 3e38]])
    expected = torch.tensor([[0.125, 0.25, 0, 0.625], [0.5, 0.5, 0, 0], [1 / 6, 1 / 6, 1 / 6, 0.5]])
    for dtype in (torch.float32, torch.float64):
        found = random.multinomial(weights.to(dtype), n, True, generator=g())
        rates = torch.stack([torch.bincount(row, minlength=4) for row in found]) / n
        assert (rates - expected).abs().max() < 0.01 and (rates[expected == 0] == 0).all()
    m = 20_000 if FAST else 5_000
    rows = weights[:1].expand(m, 4)
    first = random.multinomial(rows, 3, generator=g())
    assert (first.sort(dim=1).values == torch.tensor([0, 1, 3])).all()
    assert (torch.bincount(first[:, 0], minlength=4) / m - expected[0]).abs().max() < 0.03
    given_3 = first[first[:, 0] == 3, 1]  # then 1 is twice as likely as 0
    assert abs((given_3 == 1).float().mean() - 2 / 3) < 0.04
    assert random.multinomial(weights[0].bfloat16(), 2).shape == (2,)
    for replacement in (True, False):
        assert random.multinomial(weights[:0], 2, replacement).shape == (0, 2)
    out = torch.empty(2, dtype=torch.int64)
    assert random.multinomial(weights[0], 2, generator=g(), out=out) is out
    tiny = torch.tensor([0.0, 1e-40, 1e-45])  # 1 / weight is infinite: 0 still comes never
    assert random.multinomial(tiny, 2).sort().values.tolist() == [1, 2]
    few = torch.tensor([0.0, 0.5, 0.0, -0.0, 2.0, 0.0])  # those without a weight come last, in their order
    assert {tuple(random.multinomial(few, 5).tolist()) for _ in range(50)} == {(1, 4, 0, 2, 3), (4, 1, 0, 2, 3)}
    # The integer weights of the text, and the exact product of 64 bits by their sum.
    x = np.stack(ops_words(1000, 2)).astype(np.uint32).astype(object)
    w = [1, 2, 0, 5]
    shift = (62 - (4).bit_length()) - 3  # 5 is below 2**3
    bounds = np.cumsum([v << shift for v in w])
    picks = [
        int(np.searchsorted(bounds, ((int(a) << 32 | int(b)) * int(bounds[-1])) >> 64, side="right")) for a, b in x.T
    ]
    assert random.multinomial(weights[0], 1000, True, generator=g()).tolist() == picks


def test_random__multinomial_at_the_ends_of_its_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product of 64 bits, and the lowest and the highest word: no category without a weight."""
    totals, xs = [1, 2**32 - 1, 2**61 + 12345, 2**62 - 1], [0, 1, 2**32 - 1, 2**32, 2**63 + 7, 2**64 - 1]
    for total in totals:
        upper, lower = torch.tensor([x >> 32 for x in xs]), torch.tensor([x % 2**32 for x in xs])
        found = _product_high(upper, lower, torch.tensor(total))
        assert found.tolist() == [x * total >> 64 for x in xs]
    weights = torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0])
    for word, category in ((0, 1), (-1, 3)):
        words = [torch.full((1, 4), word, dtype=torch.int32)] * 2
        monkeypatch.setattr(draws, "words", lambda *_, words=words: words)
        assert random.multinomial(weights, 4, True).tolist() == [category] * 4


NAN, INF = float("nan"), float("inf")
BAD: list[tuple[Callable[[Generator], Any], type[RepDLError], str]] = [
    (lambda g: random.rand(-1, generator=g), ShapeError, r"rand: size is \[-1\]"),
    (lambda g: random.rand(2, names=("N",), generator=g), ArgumentError, "rand: got names, expected no others"),
    (lambda g: random.rand(2, size=(3,), generator=g), ArgumentError, "rand: got size"),
    (lambda g: random.rand(2.5, generator=g), ArgumentError, "size"),
    (lambda g: random.rand(2, dtype=torch.int64, generator=g), UnsupportedError, "dtype is int64, expected"),
    (lambda g: random.rand(2, layout=torch.sparse_coo, generator=g), UnsupportedError, "layout"),
    (lambda g: random.randint(3, 3, (2,), generator=g), OutOfRangeError, "low is 3 and high is 3"),
    (lambda g: random.randint(300, (2,), dtype=torch.uint8, generator=g), OutOfRangeError, "expected 0 to 255"),
    (lambda g: random.randint(2**24 + 2, (2,), dtype=torch.float32, generator=g), OutOfRangeError, "has all of"),
    (lambda g: random.randint(3, generator=g), ArgumentError, "expected"),
    (lambda g: random.randperm(-1, generator=g), OutOfRangeError, "n is -1"),
    (lambda g: random.randperm(257, dtype=torch.uint8, generator=g), OutOfRangeError, "expected 0 to 255"),
    (lambda g: random.random_(torch.empty(2), 5, 5, generator=g), OutOfRangeError, "low is 5"),
    (lambda g: random.uniform_(torch.empty(2), 1, 0, generator=g), OutOfRangeError, "from is 1.0 and to is 0.0"),
    (lambda g: random.uniform_(torch.empty(2), 0, INF, generator=g), OutOfRangeError, "to is inf"),
    (lambda g: random.uniform_(torch.empty(2), -3e38, 3e38, generator=g), OutOfRangeError, "the largest"),
    (lambda g: random.uniform_(torch.empty(2, dtype=torch.int64), generator=g), UnsupportedError, "dtype is int64"),
    (lambda g: random.uniform_(torch.empty(2, requires_grad=True), generator=g), UnsupportedError, "is a leaf"),
    (lambda g: random.uniform_(torch.empty(1).expand(3), generator=g), UnsupportedError, "share memory"),
    (lambda g: random.normal_(torch.empty(2), 0, -1, generator=g), OutOfRangeError, "std is -1.0"),
    (lambda g: random.normal_(torch.empty(2), NAN, 1, generator=g), OutOfRangeError, "mean is nan"),
    (
        lambda g: random.normal(torch.zeros(2), torch.tensor([1.0, -1.0]), generator=g),
        OutOfRangeError,
        r"std\[1\] is -1",
    ),
    (
        lambda g: random.normal(torch.zeros(2), torch.tensor([NAN, 1.0]), generator=g),
        OutOfRangeError,
        r"std\[0\] is nan",
    ),
    (lambda g: random.normal(torch.zeros(2), torch.zeros(3), generator=g), ShapeError, "expected ones that broadcast"),
    (lambda g: random.normal(0.0, 1.0, generator=g), ArgumentError, "size is None"),
    (lambda g: random.trunc_normal_(torch.empty(2), 0, 0, generator=g), OutOfRangeError, "std is 0.0"),
    (lambda g: random.trunc_normal_(torch.empty(2), 0, 1, 2, 1, generator=g), OutOfRangeError, "expected a <= b"),
    (lambda g: random.trunc_normal_(torch.empty(2), 0, 1, 1e30, INF, generator=g), OutOfRangeError, r"within 2\*\*60"),
    (lambda g: random.exponential_(torch.empty(2), 0, generator=g), OutOfRangeError, "lambd is 0.0"),
    (lambda g: random.cauchy_(torch.empty(2), 0, 0, generator=g), OutOfRangeError, "sigma is 0.0"),
    (lambda g: random.log_normal_(torch.empty(2), 0, -1, generator=g), OutOfRangeError, "std is -1.0"),
    (lambda g: random.geometric_(torch.empty(2), 1, generator=g), OutOfRangeError, "p is 1.0"),
    (lambda g: random.bernoulli(torch.tensor([0.5, 1.1]), generator=g), OutOfRangeError, r"input\[1\] is 1.1"),
    (lambda g: random.bernoulli(torch.tensor([-1e-45]), generator=g), OutOfRangeError, r"input\[0\] is"),
    (lambda g: random.bernoulli(torch.tensor([NAN]), generator=g), OutOfRangeError, r"input\[0\] is nan"),
    (lambda g: random.bernoulli(torch.tensor([1]), generator=g), UnsupportedError, "dtype is int64"),
    (lambda g: random.bernoulli_(torch.empty(2), -0.1, generator=g), OutOfRangeError, "p is -0.1"),
    (
        lambda g: random.bernoulli_(torch.empty(2), torch.tensor([0.0, 2.0]), generator=g),
        OutOfRangeError,
        r"p\[1\] is 2",
    ),
    (
        lambda g: random.bernoulli_(torch.empty(2), torch.zeros(3), generator=g),
        ShapeError,
        "expected one that broadcasts",
    ),
    (lambda g: random.multinomial(torch.empty(0), 1, generator=g), ShapeError, "shape"),
    (lambda g: random.multinomial(torch.zeros(3), 1, True, generator=g), OutOfRangeError, "has none above 0"),
    (lambda g: random.multinomial(torch.zeros(2, 3), 2, generator=g), OutOfRangeError, "row 0 of the weights has none"),
    (lambda g: random.multinomial(torch.ones(3), 4, generator=g), ShapeError, "num_samples is 4"),
    (lambda g: random.multinomial(torch.ones(3), 0, generator=g), OutOfRangeError, "num_samples is 0"),
    (lambda g: random.multinomial(torch.tensor([1.0, NAN]), 1, generator=g), OutOfRangeError, r"input\[1\] is nan"),
    (
        lambda g: random.multinomial(torch.tensor([[1.0, INF]]), 1, generator=g),
        OutOfRangeError,
        r"input\[0, 1\] is inf",
    ),
    (lambda g: random.multinomial(torch.tensor([1.0, -1.0]), 1, generator=g), OutOfRangeError, r"input\[1\] is -1"),
    (lambda g: random.multinomial(torch.ones(2, 2, 2), 1, generator=g), ShapeError, "dim"),
    (lambda g: random.multinomial(torch.ones(3, dtype=torch.int64), 1, generator=g), DTypeError, "dtype"),
    (lambda g: random.poisson(torch.tensor([1.0, -2.0]), g), OutOfRangeError, r"input\[1\] is -2.0, expected a rate"),
    (lambda g: random.poisson(torch.tensor([NAN]), g), OutOfRangeError, r"input\[0\] is nan, expected a rate"),
    (lambda g: random.poisson(torch.ones(3, dtype=torch.int64), g), UnsupportedError, "dtype is int64"),
    (lambda g: random.binomial(torch.ones(3), torch.ones(3), g), UnsupportedError, "not available yet"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_random__bad_arguments_leave_the_generator(number: int) -> None:
    call, error, message = BAD[number]
    generator = Generator(3, stream=2)
    state = generator.get_state()
    with pytest.raises(error, match=message):
        call(generator)
    assert torch.equal(generator.get_state(), state)


def test_random__gradients_end_at_draws() -> None:
    p = torch.full((4,), 0.5, requires_grad=True)
    random.bernoulli(p).sum().backward()
    assert torch.equal(p.grad, torch.zeros(4))  # type: ignore[arg-type]
    x = torch.ones(4, requires_grad=True) * 2
    random.uniform_(x)
    assert x.requires_grad
    (gradient,) = torch.autograd.grad(x.sum(), [x])
    assert torch.equal(gradient, torch.ones(4))
