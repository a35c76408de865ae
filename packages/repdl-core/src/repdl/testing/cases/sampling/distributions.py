"""Cases of distributions: options, both ends of their ranges, odd offsets, layouts of `like`."""

from __future__ import annotations

import math
from typing import Any

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.cases.sampling.random import PLACES, like, position, strided_position
from repdl.testing.inputs import uniform

OPTIONS: dict[str, dict[str, tuple[float, ...]]] = {
    "uniform": {
        "unit": (0.0, 1.0, 1.0 - 2.0**-24),
        "wide": (-1000.0, 1000.0, 999.5),
        "thin": (1.0, 1.0 + 2.0**-23, 1.0),
        "equal": (0.3, 0.3, 0.3),
        "cut": (0.0, 1.0, 0.5),
        "subnormal": (0.0, 1e-40, 1e-40),
    },
    "normal": {
        "unit": (0.0, 1.0),
        "wide": (-3.0, 1e4),
        "std_0": (0.7, 0.0),
        "inf": (math.inf, math.inf),
        "subnormal": (0.0, 1e-40),
    },
    "exponential": {"unit": (1.0,), "slow": (1e-3,), "fast": (1e30,), "subnormal": (3e38,)},
    "truncated_normal": {
        "centre": (0.0, 1.0, -2.0, 2.0),
        "init": (0.0, 0.02, -2.0, 2.0),
        "off_centre": (1.0, 2.0, -1.5, 8.0),
        "thin": (0.0, 1.0, -0.1, 0.1),
        "thin_right": (0.0, 1.0, 2.0, 2.25),
        "right": (0.0, 1.0, 3.0, 9.0),
        "tail": (0.0, 1.0, 4.0, math.inf),
        "left_tail": (1.0, 0.5, -math.inf, -2.0),
        "no_bounds": (0.5, 2.0, -math.inf, math.inf),
        "subnormal": (0.0, 1e-40, -1e-40, 2e-40),
        "point": (0.0, 1.0, 1e6, 1e6),
        "from_half": (0.0, 1.0, 0.5, 3.0),
        "from_half_to_2.5": (0.0, 1.0, 0.5, 2.5),
        "from_quarter_to_2.25": (0.0, 1.0, 0.25, 2.25),
    },
    "bernoulli_scalar": {"half": (0.5,), "rare": (0.03,), "never": (0.0,), "always": (1.0,), "tiny": (2.0**-40,)},
}
"""Op -> name -> its options."""


def _case(op: str, name: str, place: str, *shape: int, dtypes: Any = EVERY) -> Case:
    options = next(iter(OPTIONS[op].values()))
    return Case(op, name, lambda: (like(*shape), position(place), *options), dtypes=dtypes)


def _probabilities() -> torch.Tensor:
    p = uniform(3, 6, 11).abs()
    p[0, :3] = torch.tensor([0.0, 2.0**-40, 1.0 - 2.0**-24])
    return p


def _rates() -> torch.Tensor:
    """From 0 to 2**36, on both sides of 30."""
    x = uniform(5, 7, 12).abs() * torch.exp2(torch.arange(12) * 3.0 - 1.0)
    x[0, :4] = torch.tensor([0.0, 2.0**-149, 29.75, 30.0])
    return x


CASES = [
    *(
        Case(op, name, lambda op=op, name=name: (like(7, 9), position(), *OPTIONS[op][name]), dtypes=EVERY)
        for op, options in OPTIONS.items()
        for name in options
    ),
    *(_case(op, name, name, 33, dtypes=DOUBLE) for op in OPTIONS for name in PLACES),
    *(_case(op, "one", "odd", dtypes=()) for op in OPTIONS),
    *(_case(op, "long", "start", 1100, dtypes=DOUBLE) for op in ("uniform", "bernoulli_scalar")),
    *(_case(op, "empty", "odd", 3, 0) for op in OPTIONS),
    *(
        Case(op, "strided", lambda op=op: (uniform(1, 5, 6).t(), strided_position(), *next(iter(OPTIONS[op].values()))))
        for op in OPTIONS
    ),
    *(Case("bernoulli", name, lambda n=name: (_probabilities(), position(n)), dtypes=DOUBLE) for name in PLACES),
    Case("bernoulli", "permuted", lambda: (_probabilities().t(), position()), dtypes=EVERY),
    Case("bernoulli", "expanded", lambda: (uniform(3, 5, 1).abs().expand(5, 4), position()), dtypes=EVERY),
    Case("bernoulli", "ends", lambda: (torch.tensor([0.0, 1.0, -0.0, 2.0**-149]).repeat(9), position())),
    *(Case("poisson", name, lambda n=name: (_rates()[:5], position(n)), dtypes=DOUBLE) for name in PLACES),
    Case("poisson", "permuted", lambda: (_rates()[:, :5].contiguous().t(), position()), dtypes=EVERY),
    Case("poisson", "one", lambda: (torch.tensor(3.5), position())),
    Case("poisson", "empty", lambda: (torch.zeros(0, 2), position()), dtypes=EVERY),
    Case("bernoulli", "one", lambda: (torch.tensor(0.5), position())),
    Case("bernoulli", "empty", lambda: (torch.zeros(0, 2), position()), dtypes=EVERY),
]
