"""Cases of cells: sizes around vectors and threads, layouts, special values, gates that are 0 or 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import uniform

Make = Callable[..., torch.Tensor]
VALUES: dict[str, tuple[int, ...]] = {
    "lstm_gates": (4, 4, 1),
    "lstm_gates_backward": (1, 1, 4, 1, 1),
    "gru_gates": (3, 3, 1),
    "gru_gates_backward": (1, 4, 1),
}
SHAPES = [(1, 1), (3, 5), (2, 16), (2, 33), (3, 70), (1, 4100), (65, 70)]


def _made(op: str, rows: int, size: int, make: Make = uniform, **kind: Any) -> tuple[Any, ...]:
    return tuple(make(i, rows, k * size, **kind) for i, k in enumerate(VALUES[op], 1))


def _strided(seed: int, rows: int, columns: int) -> torch.Tensor:
    return uniform(seed, columns, 2 * rows, scale=2.0)[:, ::2].t()


def _cases(op: str) -> list[Case]:
    makes: dict[str, Callable[[], tuple[Any, ...]]] = {
        **{f"{n}x{h}": lambda n=n, h=h: _made(op, n, h, scale=2.0) for n, h in SHAPES},
        "strided": lambda: _made(op, 5, 19, _strided),
        "special": lambda: _made(op, 40, 19, special=True),
        "large": lambda: _made(op, 9, 19, scale=64.0),
        "subnormal": lambda: _made(op, 9, 19, scale=2.0**-130),
        "small": lambda: _made(op, 9, 19, scale=2.0**-70),
        "no_rows": lambda: _made(op, 0, 7),
        "no_columns": lambda: _made(op, 3, 0),
    }
    half = ("3x5", "strided", "special", "large", "no_rows")
    return [Case(op, name, make, dtypes=EVERY if name in half else ()) for name, make in makes.items()]


CASES = [case for op in VALUES for case in _cases(op)]
