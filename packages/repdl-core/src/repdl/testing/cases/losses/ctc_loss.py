"""Cases of ctc_loss: lengths, repeated targets, impossible ones, special values, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import index, uniform


def _arguments(reduction: str, zero_infinity: bool = False, **tensors: Any) -> tuple[Any, ...]:
    """T = 9, N = 5, C = 4, S = 4: the third has no target, the fourth no input, the fifth one that is too short."""
    given = {
        "log_probs": uniform(1, 9, 5, 4) - 1.5,
        "targets": torch.tensor([[1, 2, 3, 1], [2, 2, 1, 1], [1, 1, 1, 1], [3, 0, 0, 0], [2, 2, 2, 2]]),
        "input_lengths": torch.tensor([9, 8, 7, 0, 6]),
        "target_lengths": torch.tensor([4, 3, 0, 1, 4]),
        **tensors,
    }
    return (*given.values(), 0, reduction, zero_infinity)


def _states(emitted: torch.Tensor, lengths: list[int]) -> tuple[Any, ...]:
    """`(T, N, S)`: of a state that is no blank, whether it skips one, and how many steps count."""
    skips = torch.zeros(emitted.shape[1:], dtype=torch.bool)
    skips[:, 3::2] = index(5, 2, *skips[:, 3::2].shape).bool()
    return emitted, skips, torch.tensor(lengths, dtype=torch.int64)


def _backward(emitted: torch.Tensor, lengths: list[int]) -> tuple[Any, ...]:
    _, *rest = _states(emitted, lengths)
    return uniform(6, *emitted.shape), emitted, *rest


def _cases_of_states(op: str, make: Callable[..., tuple[Any, ...]]) -> list[Case]:
    return [
        *(
            Case(
                op,
                f"{n}_states",
                lambda n=n: make(uniform(1, 6, 3, n) - 1.0, [6, 4, 0]),
                dtypes=EVERY if n == 9 else (),
            )
            for n in (1, 3, 9, 33, 65)
        ),
        Case(op, "special", lambda: make(uniform(1, 7, 4, 9, special=True), [7, 6, 5, 2]), dtypes=EVERY),
        Case(op, "subnormal", lambda: make(uniform(1, 7, 2, 9, scale=2.0**-130), [7, 3]), dtypes=DOUBLE),
        Case(op, "far", lambda: make(uniform(1, 7, 2, 9) * 200, [7, 5]), dtypes=DOUBLE),
        Case(op, "strided", lambda: make(uniform(1, 9, 2, 7).permute(2, 1, 0), [7, 7])),
        Case(op, "no_steps", lambda: make(uniform(1, 0, 2, 3), [0, 0])),
        Case(op, "no_batch", lambda: make(uniform(1, 4, 0, 3), []), dtypes=EVERY),
    ]


CASES = [
    *(Case("ctc_loss", r, lambda r=r: _arguments(r), dtypes=EVERY if r == "none" else ()) for r in ("none", "sum")),
    *(Case("ctc_loss", f"zero_infinity_{r}", lambda r=r: _arguments(r, True), dtypes=EVERY) for r in ("mean", "none")),
    Case("ctc_loss", "special", lambda: _arguments("none", log_probs=uniform(1, 9, 5, 4, special=True)), dtypes=EVERY),
    Case("ctc_loss", "subnormal", lambda: _arguments("none", log_probs=uniform(1, 9, 5, 4, scale=2.0**-130))),
    Case("ctc_loss", "transposed", lambda: _arguments("none", log_probs=uniform(1, 4, 5, 9).permute(2, 1, 0) - 1.5)),
    Case(
        "ctc_loss", "blank",
        lambda: (
            uniform(1, 30, 3, 20) * 4, index(2, 19, 3, 10), torch.tensor([30, 25, 20]), torch.tensor([10, 7, 1]), 19,
            "none", False,
        ),
    ),
    Case(
        "ctc_loss", "empty",
        lambda: (uniform(1, 4, 0, 3), index(2, 3, 0, 2), index(3, 3, 0), index(4, 3, 0), 0, "mean", False),
    ),
    *_cases_of_states("ctc_states", _states),
    *_cases_of_states("ctc_states_backward", _backward),
    Case(
        "ctc_states_backward", "grad_subnormal",
        lambda: (uniform(6, 7, 2, 9, scale=2.0**-130), *_states(uniform(1, 7, 2, 9), [7, 3])), dtypes=DOUBLE,
    ),
]  # fmt: skip
