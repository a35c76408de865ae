"""Cases of sgd_step: every combination of options, sizes, layouts, special values, roundings."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, Case
from repdl.testing.generated import Make, columns_first, gaps, mixed_layouts
from repdl.testing.inputs import uniform


def _step(
    *shapes: tuple[int, ...],
    make: Make = uniform,
    lr: float = 0.1,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    first: bool = False,
    **kind: Any,
) -> tuple[Any, ...]:
    """The arguments of a step; tensor i of list j is `make(10 * i + j, *shape)`."""
    lists = [[make(10 * i + j, *shape, **kind) for i, shape in enumerate(shapes)] for j in range(3)]
    buffers = lists[2] if momentum else []
    return lists[0], lists[1], buffers, lr, weight_decay, momentum, dampening, nesterov, maximize, first


def _fused_weight_decay() -> tuple[Any, ...]:
    # The gradient, then the buffer, is 2**-24 with a fused multiply-add, 0 without.
    p, g = torch.tensor([1 + 2.0**-12]), torch.tensor([-(1 + 2.0**-11)])
    return [p], [g], [torch.zeros(1)], 0.0, 1 + 2.0**-12, 0.5, 0.0, False, False, True


def _momentum_rounds_first() -> tuple[Any, ...]:
    # b * momentum rounds to 1 + 2**-11 before g is added: the buffer becomes 0, not 2**-24.
    b, g = torch.tensor([1 + 2.0**-12]), torch.tensor([-(1 + 2.0**-11)])
    return [torch.ones(1)], [g], [b], 0.5, 0.0, 1 + 2.0**-12, 0.0, False, False, False


def _dampening_rounded_once() -> tuple[Any, ...]:
    # 1 - dampening is a double; rounding dampening to float32 first would give another share.
    return _step((5, 5), momentum=0.9, dampening=0.99999999, lr=1e6)


OPTIONS = [(0.0, 0.0, False, False)] + [
    (0.9, dampening, nesterov, first)
    for dampening, nesterov in ((0.0, False), (0.3, False), (0.0, True))
    for first in (False, True)
]
IN_DOUBLE = {
    *((0.0, 0.0, False, False, decay) for decay in (0.0, 0.01)),
    *((0.9, 0.3, False, True, decay) for decay in (0.0, 0.01)),
    (0.9, 0.3, False, False, 0.01),
    *((0.9, 0.0, True, True, decay) for decay in (0.0, 0.01)),
    (0.9, 0.0, True, False, 0.0),
}
"""Those of `OPTIONS`, with a weight decay, that are made in float64 too."""

CASES = [
    *(
        Case(
            "sgd_step",
            f"momentum_{m}_dampening_{d}{'_nesterov' * n}{'_first' * f}{'_decay' * (wd != 0)}{'_maximize' * x}",
            lambda m=m, d=d, n=n, f=f, wd=wd, x=x: _step(
                (7, 11), (3,), momentum=m, dampening=d, nesterov=n, first=f, weight_decay=wd, maximize=x
            ),
            dtypes=DOUBLE if not x and (m, d, n, f, wd) in IN_DOUBLE else (),
        )
        for (m, d, n, f), wd, x in product(OPTIONS, (0.0, 0.01), (False, True))
    ),
    *(
        Case(
            "sgd_step",
            f"special{'_nesterov' * n}{'_first' * f}",
            lambda n=n, f=f: _step((300,), momentum=0.9, weight_decay=0.5, nesterov=n, first=f, special=True),
            dtypes=() if f else DOUBLE,
        )
        for n in (False, True)
        for f in (False, True)
    ),
    Case("sgd_step", "special_plain", lambda: _step((300,), special=True)),
    Case("sgd_step", "special_maximize", lambda: _step((300,), special=True, maximize=True)),
    Case(
        "sgd_step", "subnormal", lambda: _step((300,), momentum=0.9, weight_decay=0.1, scale=2.0**-135), dtypes=DOUBLE
    ),
    Case(
        "sgd_step",
        "subnormal_hyperparameters",
        lambda: _step((70,), momentum=1e-40, weight_decay=1e-41, lr=1e-42, scale=2.0**20),
    ),
    Case("sgd_step", "overflow", lambda: _step((70,), momentum=0.9, lr=1e30, scale=2.0**120), dtypes=DOUBLE),
    Case("sgd_step", "lr_overflows_float32", lambda: _step((9,), lr=1e300)),
    Case(
        "sgd_step",
        "lr_0_negative_zero",
        lambda: ([torch.tensor([-0.0])], [torch.tensor([1.0])], [], 0.0, 0.0, 0.0, 0.0, False, False, False),
    ),
    *(
        Case("sgd_step", f"size_{n}", lambda n=n: _step((n,), momentum=0.9), dtypes=DOUBLE if n in (65, 1025) else ())
        for n in (1, 15, 16, 17, 63, 65, 1025)
    ),
    *(Case("sgd_step", f"size_{n}", lambda n=n: _step((n,), momentum=0.9)) for n in (12287, 12288, 13000)),
    Case("sgd_step", "threads", lambda: _step((9001,), (3,), (8000,), (0,), (257,), momentum=0.9), dtypes=DOUBLE),
    Case("sgd_step", "no_elements", lambda: _step((0,), (3, 0), momentum=0.9)),
    Case("sgd_step", "dim_0", lambda: _step((), (), momentum=0.9, weight_decay=0.1), dtypes=DOUBLE),
    Case("sgd_step", "permuted", lambda: _step((4, 5, 6), (7, 3), momentum=0.9, make=columns_first), dtypes=DOUBLE),
    Case("sgd_step", "gaps", lambda: _step((4, 5, 6), (7, 3), momentum=0.9, make=gaps)),
    Case(
        "sgd_step", "mixed_layouts", lambda: _step((4, 5, 6), (7, 3), momentum=0.9, make=mixed_layouts), dtypes=DOUBLE
    ),
    Case("sgd_step", "fused_weight_decay", _fused_weight_decay),
    Case("sgd_step", "momentum_rounds_first", _momentum_rounds_first),
    Case("sgd_step", "dampening_rounded_once", _dampening_rounded_once),
]
