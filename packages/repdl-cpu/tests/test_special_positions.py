"""One NaN, infinity, largest number or -0 among ordinary ones, at every position of every operand.

A kernel that skips work, because a weight is 0 or nobody sees a key, skips what such a number would have changed.
Attention, which skips most, has one head for each position; every op its smallest cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import repdl_cpu
from repdl.errors import OutOfRangeError
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing import Case, assert_same_bits, cases, uniform
from repdl.testing.inputs import integers

Tensor = torch.Tensor
REFERENCE, CPU = (implementations(get_backend(name)) for name in ("reference", "cpu"))
ISAS = sorted({repdl_cpu.get_isa(), "baseline"})
SPECIAL = [torch.nan, torch.inf, -torch.inf, 3e38, -0.0]


def one_each(operands: list[Tensor], number: float) -> list[Tensor]:
    """The operands, as many times as they have elements together; in each, another element is the number."""
    count, at = sum(t.numel() for t in operands), 0
    made = [t.expand(count, *t.shape).clone() for t in operands]
    for t in made:
        flat = t.view(count, -1)
        places = torch.arange(flat.shape[1])
        flat[at + places, places] = number
        at += len(places)
    return made


def compared(op: str, args: list[Any], what: str) -> None:
    expected = REFERENCE[op](*args)
    for isa in ISAS:
        with repdl_cpu.use_isa(isa):
            assert_same_bits(CPU[op](*args), expected, f"{op}, {what}, on {isa}")


def compared_where_taken(op: str, args: list[Any], what: str) -> bool:
    """`compared`, or False where the op refuses such a number: as a probability, a variance."""
    try:
        compared(op, args, what)
    except OutOfRangeError:
        return False
    return True


POSITION = torch.tensor([7, 3, 5])
BIAS = torch.where(uniform(8, 1, 1, 10, 12) > 0.5, -torch.inf, uniform(7, 1, 1, 10, 12))
BY_KEY = (uniform(9, 1, 1, 12, 10) > -0.4).transpose(2, 3)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "causal": (None, None, None, torch.tensor(0.5), 0.0, True),
    "causal, dropout": (None, None, POSITION, torch.tensor(0.5), 0.5, True),
    "a mask": (None, uniform(9, 1, 1, 10, 12) > -0.4, None, torch.tensor(0.5), 0.0, False),
    "a mask with strides": (None, BY_KEY, None, torch.tensor(0.5), 0.0, False),
    "a bias": (BIAS, None, None, torch.tensor(0.5), 0.0, False),
    "a bias, dropout": (BIAS, None, POSITION, torch.tensor(0.5), 0.5, False),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_special__in_attention(name: str) -> None:
    """Chunks of four queries in the derivative, of which each sees fewer keys than there are."""
    tensors = uniform(1, 10, 2), uniform(2, 12, 2), uniform(3, 12, 2), uniform(4, 10, 2)
    for number in SPECIAL if name == "causal" else SPECIAL[:2]:
        *heads, grad = (t.unsqueeze(1) for t in one_each([*tensors], number))
        options = *OPTIONS[name], 10, "dot_chunk=4,sum_lanes=64,sum_block=1024"
        compared("attention", [*heads, *options], f"{name}, {number}")
        compared("attention_backward", [grad, *heads, *options], f"{name}, {number}")


@pytest.mark.parametrize("number", SPECIAL)
def test_special__in_causal_attention_of_several_blocks(number: float) -> None:
    """The first block of 48 or 56 queries sees fewer keys than there are, and in the derivative none is in a chunk."""
    heads = [t.unsqueeze(1) for t in one_each([uniform(1, 58, 1), uniform(2, 61, 1), uniform(3, 61, 1)], number)]
    options = None, None, None, torch.tensor(0.5), 0.0, True, 58
    compared("attention", [*heads, *options, "v1"], f"{number} at each position")
    few = [t[::3] for t in heads]
    grads = uniform(4, 1, 1, 58, 1).expand(len(few[0]), 1, 58, 1)
    compared("attention_backward", [grads, *few, *options, "dot_chunk=29,sum_lanes=64,sum_block=1024"], f"{number}")


def places(case: Case) -> Iterator[tuple[int, int]]:
    """Argument and element, of all floating-point elements."""
    for i, argument in enumerate(case.args()):
        if isinstance(argument, Tensor) and argument.is_floating_point():
            yield from ((i, j) for j in range(argument.numel()))


def small(most: int) -> Iterator[Case]:
    """The cases that have so many elements at most. Draws of given probabilities or rates refuse such numbers."""
    for case in cases():
        op = OPS[case.op]
        if case.derived or case.op not in CPU or op.mutates or op.family == "distributions":
            continue
        if 0 < sum(a.numel() for a in case.args() if isinstance(a, Tensor)) <= most:
            yield case


def check(case: Case, every: int) -> int:
    count = 0
    for n, (i, j) in enumerate(places(case)):
        for number in SPECIAL[:3]:
            count += 1
            if (n + count) % every:
                continue
            args = [a.clone() if isinstance(a, Tensor) else a for a in case.args()]
            args[i] = args[i].contiguous()
            args[i].view(-1)[j] = number
            compared_where_taken(case.op, args, f"{case}, {number} at {j} of argument {i}")
    return count


def test_special__in_small_cases() -> None:
    """The smallest case of each op, and a sample of the positions."""
    smallest: dict[str, Case] = {}
    for case in small(64):
        smallest.setdefault(case.op, case)
    assert sum(check(case, 12) for case in smallest.values()) > 4000


@pytest.mark.nightly
def test_special__in_every_small_case() -> None:
    assert sum(check(case, 1) for case in small(64)) > 40_000


@pytest.mark.parametrize(
    "number", [torch.nan, -torch.inf, -0.0, *(pytest.param(n, marks=pytest.mark.nightly) for n in (torch.inf, 3e38))]
)
def test_special__in_every_element(number: float) -> None:
    """Sums of nothing but -0, the largest of nothing but -inf: what a chain or a window begins with is seen."""
    count = 0
    for case in small(4096):
        args = [_filled(a, number) for a in case.args()]
        count += compared_where_taken(case.op, args, f"{case}, {number} everywhere")
    assert count > 1000


def _filled(argument: Any, number: float) -> Any:
    """Other tensors, indices and masks, stay."""
    is_float = isinstance(argument, Tensor) and argument.is_floating_point()
    return torch.full_like(argument, number) if is_float else argument


def test_special__in_normalisation() -> None:
    """At every position of small cases: a NaN that a sum makes of infinities, in vectors and behind them."""
    checked = [check(case, 1) for case in small(40) if OPS[case.op].family == "batch_norm"]
    x, grad, ones = uniform(1, 2, 2, 9), uniform(2, 2, 2, 9), torch.ones(2)
    for number in SPECIAL[:3]:
        for t, g in zip(*one_each([x, grad], number)):
            compared("batch_norm_backward", [g, t, ones, ones, ones, True, "v1"], f"{number}")
    assert sum(checked) > 100


def test_special__the_first_of_zeros() -> None:
    """Behind and among numbers below 0, in rows around a vector and a block."""
    for n in (1, 2, 8, 9, 63, 64, 65, 200):
        zero = torch.where(uniform(1, 6, n) < 0, -0.0, 0.0)
        for x in (zero, torch.where(uniform(2, 6, n) < 0.3, -1.0, zero), -zero):
            for dtype in (torch.float32, torch.float64):
                for op, *args in (("amax",), ("max_dim", 1, False), ("max",)):
                    compared(op, [x.to(dtype), *args], f"{op} of zeros, {n}, {dtype}")


def test_special__remainders_of_any_bits() -> None:
    """Quotients of every size, some of them rounded up to an integer; more than 2**149 multiples leave no number."""
    words = ((integers(seed, 20_000) & 0xFFFFFFFF).astype("uint32") for seed in (1, 2))
    x, y = (torch.from_numpy(each).view(torch.float32) for each in words)
    for dtype in (torch.float32, torch.float64):
        a, b = x.to(dtype), y.to(dtype)
        if dtype is torch.float64:
            a, b = a * (1 + 2.0**-40), b * (1 + 2.0**-45)
        a = torch.cat([a, (b * 12345).nextafter(torch.zeros(1, dtype=dtype)), b * 3e7])
        b = torch.cat([b, b, b])
        found = CPU["fmod"](a, b, "v1")
        for p, q, r in zip(a.tolist(), b.tolist(), found.tolist()):
            usual = math.isfinite(p) and q != 0 and not math.isnan(q) and (math.isinf(q) or abs(p) < abs(q) * 2.0**148)
            if usual:
                assert r == math.fmod(p, q) and math.copysign(1, r) == math.copysign(1, p), (p, q)
            elif not (math.isfinite(p) and math.isfinite(q) and q != 0):
                assert math.isnan(r), (p, q)


def test_special__signs_of_what_multiplies_a_sum() -> None:
    """A row without terms keeps its zeros, whichever sign the multiplier and they have."""
    x, index, values = torch.tensor([[-0.0, 0.0, 1.0]] * 3), torch.tensor([1, 1]), uniform(1, 2, 3)
    for alpha in (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1e-300, -1e-300):
        for dtype in (torch.float32, torch.float64):
            compared("add_index_sum", [x.to(dtype), index, values.to(dtype), alpha, "v1"], f"alpha {alpha}, {dtype}")


def test_special__other_nans_in_every_element() -> None:
    """NaNs with a sign and a payload, which no result has; of losses that of each position."""
    nans = torch.tensor([0x7FC12345, -0x3ABCDF, 0x7FABCDEF], dtype=torch.int32).view(torch.float32)
    count = 0
    for case in small(64):
        for i, argument in enumerate(case.args()):
            if not isinstance(argument, Tensor) or argument.dtype is not torch.float32:
                continue
            args = [a.clone() if isinstance(a, Tensor) else a for a in case.args()]
            if case.op in ("nll_loss", "cross_entropy"):
                args[3] = "none"
            args[i] = nans[torch.arange(argument.numel()) % len(nans)].view(argument.shape)
            count += compared_where_taken(case.op, args, f"{case}, NaNs as argument {i}")
    assert count > 500


def test_special__sums_of_minus_zeros() -> None:
    """As many as a vector or the lanes have, one more and one less: the sum is +0."""
    for n in (*range(1, 18), 31, 32, 33, 63, 64, 65):
        for width in (1, 3):
            for dtype in (torch.float32, torch.float64):
                values = torch.full((n, width), -0.0, dtype=dtype)
                index, what = torch.zeros(n, dtype=torch.int64), f"{n} rows of {width}, {dtype}"
                compared("index_sum", [values, index, 2, "v1"], what)
                compared("add_index_sum", [values[:2], index[:n], values, 1.0, "v1"], what)
                for given in (values, values.t().contiguous().t(), values.repeat(1, 2)[:, ::2]):
                    for dims in ([0], [1], [0, 1]):
                        compared("sum", [given, dims, False, "v1"], f"{what}, strides {given.stride()}, {dims}")


def test_special__means_of_minus_zeros() -> None:
    """Windows of one element and of several lanes of them, as many as a vector has and one more."""
    for height in range(1, 10):
        for width in range(1, 10):
            for windows in (1, 9, 17):
                starts, stops = [0, *range(windows)], [height, *range(width, width + windows)]
                lengths = [height, *[width] * windows]
                for dtype in (torch.float32, torch.float64):
                    x = torch.full((1, 2, height, width + windows - 1), -0.0, dtype=dtype)
                    for given in (x, x.to(memory_format=torch.channels_last)):
                        what = f"{windows} windows of {height}x{width}, {dtype}, strides {given.stride()}"
                        compared("avg_pool", [given, starts, stops, lengths, [1, windows], "v1"], what)
