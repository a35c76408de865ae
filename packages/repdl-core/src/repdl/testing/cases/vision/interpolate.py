"""Cases of nearest and resample: sides, factors, gaps, repeated positions, layouts, special values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

PAIRS = {
    "doubled": ((5, 9), (10, 18)), "smaller": ((9, 20), (4, 7)), "wide": ((3, 40), (7, 90)),
    "one_side": ((37,), (74,)), "three_sides": ((3, 4, 5), (6, 3, 10)), "one_element": ((1, 1), (3, 20)),
    "many_terms": ((2, 3), (30, 27)),
}  # fmt: skip
"""Sides of the input and of the output."""


def _at(sides: Sequence[int], counts: Sequence[int]) -> list[int]:
    return [i * n // m for n, m in zip(sides, counts) for i in range(m)]


def _weighted(sides: Sequence[int], counts: Sequence[int], taps: int = 2) -> tuple[list[int], list[int]]:
    """Neighbours, the last of which repeat that of the edge, and weights of both signs."""
    at: list[int] = []
    weights: list[int] = []
    for n, m in zip(sides, counts):
        for i in range(m):
            for t in range(taps):
                at.append(min(i * n // m + t, n - 1))
                weights += struct.unpack("<q", struct.pack("<d", (i % 7 + 3 * t - 1) / 11))
    return at, weights


def _nearest(name: str, batch: tuple[int, int] = (2, 3), **kind: Any) -> tuple[Any, ...]:
    sides, counts = PAIRS[name]
    return uniform(1, *batch, *sides, **kind), _at(sides, counts), list(counts)


def _nearest_backward(name: str, batch: tuple[int, int] = (2, 3), **kind: Any) -> tuple[Any, ...]:
    sides, counts = PAIRS[name]
    return uniform(1, *batch, *counts, **kind), _at(sides, counts), list(sides)


def _resample(name: str, batch: tuple[int, int] = (2, 3), taps: int = 2, **kind: Any) -> tuple[Any, ...]:
    sides, counts = PAIRS[name]
    return uniform(1, *batch, *sides, **kind), *_weighted(sides, counts, taps), list(range(len(sides))), list(counts)


def _resample_backward(name: str, batch: tuple[int, int] = (2, 3), taps: int = 2, **kind: Any) -> tuple[Any, ...]:
    sides, counts = PAIRS[name]
    return uniform(1, *batch, *counts, **kind), *_weighted(sides, counts, taps), list(range(len(sides))), list(sides)


MAKERS = {
    "nearest": _nearest,
    "nearest_backward": _nearest_backward,
    "resample": _resample,
    "resample_backward": _resample_backward,
}


def _last(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args[0].contiguous(memory_format=torch.channels_last), *args[1:]


def _strided(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args[0].transpose(0, 1).contiguous().transpose(0, 1), *args[1:]


def _infinite(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """An infinity that meets weights of 0, and a product that is -0."""
    x = args[0]
    x[0, 0, 0, 3], x[1] = float("inf"), -0.0
    return x, args[1], [0 if i % 5 == 0 else w for i, w in enumerate(args[2])], *args[3:]


def _absent(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The second position of some elements is behind the last one, on a side of 5 and one of 9."""
    ends = [5 if i < 20 else 9 for i in range(len(args[1]))]
    return args[0], [end if i % 6 == 1 else at for i, (at, end) in enumerate(zip(args[1], ends))], *args[2:]


def _one_of_two_sides(op: str) -> tuple[Any, ...]:
    at, weights = _weighted((6,), (10,))
    sides = (6, 9) if op == "resample" else (10, 9)
    return uniform(1, 2, 20, *sides), at, weights, [0], [10, 9] if op == "resample" else [6, 9]


CASES = [
    *(
        Case(
            op,
            name,
            lambda make=make, name=name: make(name),
            dtypes=EVERY if name in ("wide", "smaller", "doubled") else (),
        )
        for op, make in MAKERS.items()
        for name in PAIRS
    ),
    *(
        case
        for op, make in MAKERS.items()
        for case in (
            Case(op, "channels_last", lambda make=make: _last(make("doubled", (2, 19))), dtypes=EVERY),
            Case(op, "channels_last_smaller", lambda make=make: _last(make("smaller", (2, 5)))),
            Case(op, "one_channel_last", lambda make=make: _last(make("doubled", (2, 1)))),
            Case(op, "strided", lambda make=make: _strided(make("doubled")), dtypes=DOUBLE),
            Case(op, "special", lambda make=make: make("wide", special=True), dtypes=EVERY),
            Case(op, "special_terms", lambda make=make: make("many_terms", special=True), dtypes=DOUBLE),
            Case(op, "subnormal", lambda make=make: make("doubled", scale=2.0**-130), dtypes=DOUBLE),
            Case(op, "no_images", lambda make=make: make("doubled", (0, 3)), dtypes=EVERY),
            Case(op, "no_channels", lambda make=make: make("doubled", (2, 0))),
        )
    ),
    *(
        case
        for op, make in (("resample", _resample), ("resample_backward", _resample_backward))
        for case in (
            Case(op, "four_taps", lambda make=make: make("wide", taps=4), dtypes=EVERY),
            Case(op, "rows_after_rows", lambda make=make: make("doubled", (7, 5))),
            Case(op, "zero_weights", lambda make=make: _infinite(make("doubled")), dtypes=DOUBLE),
            Case(op, "absent", lambda make=make: _absent(make("doubled")), dtypes=EVERY),
            Case(op, "one_of_two_sides", lambda op=op: _one_of_two_sides(op), dtypes=EVERY),
            Case(op, "no_side", lambda: (uniform(1, 2, 3, 4, 5, special=True), [], [], [], [4, 5]), dtypes=EVERY),
        )
    ),
]
