"""Cases of avg_pool: windows that overlap, that have gaps, that padding cuts off, of two lengths, of many elements."""

from __future__ import annotations

from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

Sides = tuple[tuple[int, list[tuple[int, int]]], ...]
"""Each a size, and where windows begin and end."""


def _every(size: int, kernel: int, stride: int, padding: int = 0) -> tuple[int, list[tuple[int, int]]]:
    first = range(-padding, size + padding - kernel + 1, stride)
    return size, [(max(i, 0), min(i + kernel, size)) for i in first]


def _adaptive(size: int, count: int) -> tuple[int, list[tuple[int, int]]]:
    return size, [(i * size // count, ((i + 1) * size + count - 1) // count) for i in range(count)]


SIDES: dict[str, Sides] = {
    "overlapping": (_every(7, 3, 1), _every(40, 3, 1)),
    "strided": (_every(9, 3, 2), _every(41, 3, 2)),
    "padded": (_every(6, 3, 1, 1), _every(20, 3, 1, 1)),
    "padded_strided": (_every(8, 3, 2, 1), _every(19, 5, 2, 2)),
    "gaps": (_every(11, 2, 4), _every(23, 3, 5)),
    "adaptive": (_adaptive(13, 5), _adaptive(37, 20)),
    "one_side": (_every(50, 4, 3, 2),),
    "three_sides": (_every(5, 2, 1), _every(6, 3, 2, 1), _every(18, 3, 1)),
    "more_than_lanes": (_every(12, 9, 1), _every(25, 9, 1)),
    "more_than_a_block": (_every(40, 37, 2), _every(35, 31, 3)),
}


def _numbers(sides: Sides) -> list[list[int]]:
    starts = [start for _, windows in sides for start, _ in windows]
    stops = [stop for _, windows in sides for _, stop in windows]
    return [starts, stops, [(i % 3 + 2) * (-1) ** (i == 4) for i in range(len(starts))]]


def _pool(name: str, batch: tuple[int, int] = (2, 3), **kind: Any) -> tuple[Any, ...]:
    sides = SIDES[name]
    return uniform(1, *batch, *(n for n, _ in sides), **kind), *_numbers(sides), [len(w) for _, w in sides]


def _pool_backward(name: str, batch: tuple[int, int] = (2, 3), **kind: Any) -> tuple[Any, ...]:
    sides = SIDES[name]
    return uniform(1, *batch, *(len(w) for _, w in sides), **kind), *_numbers(sides), [n for n, _ in sides]


def _last(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args[0].contiguous(memory_format=torch.channels_last), *args[1:]


def _strided(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args[0].transpose(0, 1).contiguous().transpose(0, 1), *args[1:]


def _large(op: str) -> tuple[Any, ...]:
    """More elements of a plane than are kept beside each other."""
    sides = (_every(210, 3, 2, 1), _every(401, 3, 2, 1))
    sizes = [[n for n, _ in sides], [len(w) for _, w in sides]]
    given, made = sizes if op == "avg_pool" else sizes[::-1]
    return uniform(1, 1, 1, *given), *_numbers(sides), made


DTYPES = {"padded": EVERY, "adaptive": EVERY, "three_sides": DOUBLE}
BOTH = {"avg_pool": _pool, "avg_pool_backward": _pool_backward}

CASES = [
    *(
        Case(op, name, lambda make=make, name=name: make(name), dtypes=DTYPES.get(name, ()))
        for op, make in BOTH.items()
        for name in SIDES
    ),
    *(
        case
        for op, make in BOTH.items()
        for case in (
            Case(op, "channels_last", lambda make=make: _last(make("padded", (2, 19))), dtypes=EVERY),
            Case(op, "channels_last_strided", lambda make=make: _last(make("padded_strided", (2, 5)))),
            Case(op, "strided_memory", lambda make=make: _strided(make("overlapping")), dtypes=DOUBLE),
            Case(op, "special", lambda make=make: make("padded", special=True), dtypes=EVERY),
            Case(op, "special_adaptive", lambda make=make: make("adaptive", special=True), dtypes=DOUBLE),
            Case(op, "subnormal", lambda make=make: make("padded", scale=2.0**-130), dtypes=DOUBLE),
            Case(op, "no_images", lambda make=make: make("padded", (0, 3)), dtypes=EVERY),
            Case(op, "large", lambda op=op: _large(op), dtypes=DOUBLE),
        )
    ),
]
