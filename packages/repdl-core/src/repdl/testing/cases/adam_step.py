"""Cases of adam_step: every combination of options, sizes, layouts, special values, roundings."""

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
    lr: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    corrections: tuple[float, float] = (0.271, 0.002997001),
    amsgrad: bool = False,
    maximize: bool = False,
    decoupled: bool = False,
    any_sign: bool = False,
    **kind: Any,
) -> tuple[Any, ...]:
    """The arguments of a step; tensor i of list j is `make(10 * i + j, *shape)`.

    Second moments (lists 3 and 4) are not negative unless `any_sign`.
    """
    lists = [[make(10 * i + j, *shape, **kind) for i, shape in enumerate(shapes)] for j in range(5)]
    if not any_sign:
        for tensor in (*lists[3], *lists[4]):
            tensor.abs_()
    largest = lists[4] if amsgrad else []
    return (*lists[:4], largest, lr, *betas, eps, weight_decay, *corrections, amsgrad, maximize, decoupled)


def _one(p: float, g: float, m: float, v: float, **options: Any) -> tuple[Any, ...]:
    """A step of one element."""
    values = iter((p, g, m, v))
    return _step((1,), make=lambda seed, *shape: torch.full(shape, next(values, 0.0)), **options)


def _fused_first_moment() -> tuple[Any, ...]:
    # In units of 2**-149: g / 2 + m / 2 = 1.5 + 1 = 2.5 is rounded once, to 2. A product
    # rounded by itself would be 2, and the sum 3.
    return _one(1.0, 3 * 2.0**-149, 2.0**-148, 0.0, betas=(0.5, 0.5))


def _square_before_share() -> tuple[Any, ...]:
    # (g * g) * share overflows to inf, where (g * share) * g would not.
    return _one(1.0, 2.0**64, 0.0, 0.0, betas=(0.5, 1 - 2.0**-10))


def _division_before_step() -> tuple[Any, ...]:
    # m / d overflows before the small step size could bring it back.
    return _one(1.0, 0.0, 2.0**120, 0.0, eps=2.0**-20, lr=2.0**-40)


def _parameter_not_fused() -> tuple[Any, ...]:
    # (m / d) * step rounds to -(1 + 2**-11) before p = 1 + 2**-11 is added: 0, not -2**-24.
    step = 1 + 2.0**-12
    return _one(1 + 2.0**-11, 0.0, 2 * step, 0.0, betas=(0.5, 0.5), eps=1.0, lr=step, corrections=(1.0, 1.0))


def _weight_decay_fused() -> tuple[Any, ...]:
    # The gradient is 2**-24 with a fused multiply-add, 0 without.
    return _one(1 + 2.0**-12, -(1 + 2.0**-11), 0.0, 0.0, weight_decay=1 + 2.0**-12)


IN_DOUBLE = {(0.9, 1, True, False), (0.9, 2, False, True), (0.9, 2, True, False)}
"""beta1, weight decay (none, in the gradient, decoupled), amsgrad, maximize."""

CASES = [
    *(
        Case(
            "adam_step",
            f"beta1_{b}{('', '_decay', '_decoupled')[d]}{'_amsgrad' * a}{'_maximize' * x}",
            lambda b=b, d=d, a=a, x=x: _step(
                (7, 11),
                (3,),
                betas=(b, 0.999),
                weight_decay=0.01 if d else 0.0,
                decoupled=d == 2,
                amsgrad=a,
                maximize=x,
            ),
            dtypes=DOUBLE if (b, d, a, x) in IN_DOUBLE else (),
        )
        for b, d, a, x in product((0.9, 0.0), (0, 1, 2), (False, True), (False, True))
    ),
    *(
        Case(
            "adam_step",
            f"special{('', '_decay', '_decoupled')[d]}{'_amsgrad' * a}",
            lambda d=d, a=a: _step(
                (300,), weight_decay=0.5 if d else 0.0, decoupled=d == 2, amsgrad=a, special=True, any_sign=True
            ),
            dtypes=DOUBLE if d == 0 else (),
        )
        for d in (0, 1, 2)
        for a in (False, True)
    ),
    Case("adam_step", "zeros", lambda: _step((20,), make=lambda seed, *shape: torch.zeros(shape))),
    Case(
        "adam_step", "zeros_eps_0_is_nan", lambda: _step((20,), eps=0.0, make=lambda seed, *shape: torch.zeros(shape))
    ),
    Case("adam_step", "negative_second_moment_is_nan", lambda: _step((70,), any_sign=True, betas=(0.9, 1.0))),
    Case("adam_step", "subnormal", lambda: _step((300,), weight_decay=0.1, eps=1e-44, scale=2.0**-135), dtypes=DOUBLE),
    Case("adam_step", "squares_underflow", lambda: _step((300,), scale=2.0**-70)),
    Case(
        "adam_step",
        "subnormal_hyperparameters",
        lambda: _step((70,), betas=(1e-40, 1e-41), eps=1e-45, weight_decay=1e-42, lr=1e-43),
    ),
    Case("adam_step", "overflow", lambda: _step((70,), scale=2.0**100, amsgrad=True), dtypes=DOUBLE),
    Case("adam_step", "lr_overflows_float32", lambda: _step((9,), lr=1e300)),
    Case("adam_step", "corrections_0", lambda: _step((9,), corrections=(0.0, 0.0))),
    Case("adam_step", "correction_negative_is_nan", lambda: _step((9,), corrections=(0.5, -0.5))),
    *(
        Case(
            "adam_step",
            f"size_{n}",
            lambda n=n: _step((n,), amsgrad=True),
            dtypes=DOUBLE if n in (65, 1025) else (),
        )
        for n in (1, 15, 16, 17, 63, 65, 1025)
    ),
    *(Case("adam_step", f"size_{n}", lambda n=n: _step((n,))) for n in (12287, 12288, 13000)),
    Case("adam_step", "threads", lambda: _step((9001,), (3,), (8000,), (0,), (257,)), dtypes=DOUBLE),
    Case("adam_step", "no_elements", lambda: _step((0,), (3, 0))),
    Case("adam_step", "dim_0", lambda: _step((), (), weight_decay=0.1, amsgrad=True), dtypes=DOUBLE),
    Case("adam_step", "permuted", lambda: _step((4, 5, 6), (7, 3), make=columns_first), dtypes=DOUBLE),
    Case("adam_step", "gaps", lambda: _step((4, 5, 6), (7, 3), make=gaps)),
    Case(
        "adam_step", "mixed_layouts", lambda: _step((4, 5, 6), (7, 3), amsgrad=True, make=mixed_layouts), dtypes=DOUBLE
    ),
    Case("adam_step", "fused_first_moment", _fused_first_moment),
    Case("adam_step", "square_before_share", _square_before_share),
    Case("adam_step", "division_before_step", _division_before_step),
    Case("adam_step", "parameter_not_fused", _parameter_not_fused),
    Case("adam_step", "weight_decay_fused", _weight_decay_fused),
]
