"""Cases of recurrent layers: lengths, directions, projections, layouts, special values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

EQUAL, PACKED, LONG = [3] * 4, [4, 4, 3, 1, 1], [2] * 70


def _layer(
    gates: int,
    sizes: Sequence[int],
    size: int = 5,
    reverse: bool = False,
    width: int | None = None,
    bias: bool = True,
    options: Sequence[Any] = (),
    states: int = 1,
    **kind: Any,
) -> tuple[Any, ...]:
    width = width or size
    initial = (uniform(2, sizes[0], width, **kind), uniform(3, sizes[0], size, **kind))[:states]
    return (
        uniform(1, sum(sizes), gates * size, **{"scale": 2.0, **kind}),
        *initial,
        uniform(4, gates * size, width),
        uniform(5, gates * size) if bias else None,
        *((uniform(6, width, size) if width != size else None,) if states == 2 else ()),
        list(sizes),
        reverse,
        *options,
    )


def _backward(sizes: Sequence[int], **given: Any) -> tuple[Any, ...]:
    """Of `lstm_layer_backward`: any gates and cells do."""
    made = _layer(4, sizes, states=2, **given)
    kind = {name: value for name, value in given.items() if name in ("scale", "special")}
    gates, hidden, cell, weight, _, projection, *options = made
    rows, width, size = len(gates), hidden.shape[1], cell.shape[1]
    grads = (
        uniform(seed, n, m, **kind) for seed, n, m in ((7, rows, width), (8, sizes[0], width), (9, sizes[0], size))
    )
    saved = uniform(10, rows, width, **kind), uniform(11, rows, size, **kind), gates
    return *grads, hidden, cell, weight, projection, *saved, *options


def _strided(made: tuple[Any, ...]) -> tuple[Any, ...]:
    """The matrices of a case with other strides."""
    return tuple(a.t().contiguous().t() if isinstance(a, torch.Tensor) and a.dim() == 2 else a for a in made)


def _cases(op: str, gates: int, states: int = 1, options: Sequence[Any] = ()) -> list[Case]:
    def of(sizes: Sequence[int], **given: Any) -> Callable[[], tuple[Any, ...]]:
        return lambda: _layer(gates, sizes, **{"options": options, "states": states, **given})

    unsaved = [False if o is True else o for o in options]
    makes = {
        "equal": of(EQUAL),
        "packed": of(PACKED),
        "packed_reverse": of(PACKED, reverse=True),
        "no_bias": of(EQUAL, bias=False),
        "one_step": of([2]),
        "long": of(LONG, size=19),
        "wide": of([2, 2, 1], size=300),
        "strided": lambda: _strided(of(PACKED)()),
        "special": of(PACKED, special=True),
        "subnormal": of(EQUAL, scale=2.0**-130),
        "subnormal_sums": of(PACKED, scale=2.0**-130, bias=False),
        "no_rows": of([0, 0]),
    }
    if states == 2:
        makes |= {"projected": of(PACKED, width=3), "projected_reverse": of(PACKED, width=3, reverse=True)}
    if unsaved != list(options):
        makes["unsaved"] = of(PACKED, options=unsaved)
    every = EVERY if op != "rnn_layer" else tuple(d for d in EVERY if d is not torch.float64)
    half = ("packed", "packed_reverse", "strided", "special", "projected", "no_rows", "unsaved")
    return [Case(op, name, make, dtypes=every if name in half else ()) for name, make in makes.items()]


CASES = [
    *_cases("rnn_layer", 1, options=("tanh",)),
    *(
        Case("rnn_layer", f"relu_{name}", lambda sizes=sizes: _layer(1, sizes, options=("relu",)), dtypes=DOUBLE)
        for name, sizes in (("equal", EQUAL), ("packed", PACKED), ("no_rows", [0, 0]))
    ),
    Case("rnn_layer", "relu_strided", lambda: _strided(_layer(1, PACKED, options=("relu",))), dtypes=DOUBLE),
    *_cases("lstm_layer", 4, states=2, options=(True,)),
    *(
        Case("lstm_layer_backward", name, lambda sizes=sizes, given=given: _backward(sizes, **given), dtypes=dtypes)
        for name, sizes, given, dtypes in (
            ("equal", EQUAL, {}, ()),
            ("packed", PACKED, {}, EVERY),
            ("packed_reverse", PACKED, {"reverse": True}, EVERY),
            ("one_step", [2], {}, ()),
            ("long", LONG, {"size": 19}, ()),
            ("wide", [2, 2, 1], {"size": 300}, ()),
            ("special", PACKED, {"special": True}, EVERY),
            ("subnormal", EQUAL, {"scale": 2.0**-130}, ()),
            ("no_rows", [0, 0], {}, EVERY),
            ("projected", PACKED, {"width": 3}, EVERY),
            ("projected_reverse", PACKED, {"width": 3, "reverse": True}, ()),
        )
    ),
    Case("lstm_layer_backward", "strided", lambda: _strided(_backward(PACKED)), dtypes=EVERY),
    *_cases("gru_layer", 3, options=(True,)),
]
