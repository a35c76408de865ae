"""Cases of the elementwise ops beside those of their rows."""

from __future__ import annotations

import torch

from repdl.registry import OPS
from repdl.registry.declaration import DECLARATIONS
from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.exact_arguments import MARGIN, MARGIN_2, MARGIN_3, MARGIN_4
from repdl.testing.generated import broadcast_cases, special_pairs
from repdl.testing.inputs import floats, uniform

UNARY, BINARY = (
    tuple(op for op, declaration in DECLARATIONS.items() if declaration.cases.maker == kind)
    for kind in ("unary", "binary")
)
EXACT = tuple(op for op in UNARY if not OPS[op].takes(torch.float64))


def _same_shape() -> tuple[torch.Tensor, ...]:
    return tuple(torch.broadcast_tensors(*special_pairs()))


def _some(seed: int, *shape: int) -> torch.Tensor:
    return uniform(seed, *shape) > 0


def _near_integers() -> tuple[torch.Tensor, torch.Tensor]:
    """Quotients just below, at and above an integer, which rounding moves to it; both signs, also very small operands."""
    n, b = torch.arange(1.0, 41.0).unsqueeze(1), torch.tensor([3.0, 7.0, 0.1, -0.1, 1.3, -3e-39, 2.0**-149])
    a = n * b
    return torch.stack([a, a.nextafter(torch.tensor(0.0)), a.nextafter(2 * a)]), b


def _near_midpoints() -> tuple[torch.Tensor, torch.Tensor]:
    """Quotients that are midpoints of two subnormal numbers, or whose angle is one nearly, for all four quadrants."""
    y = torch.cat([torch.arange(1.0, 200.0, 2.0) * 2.0**-149, torch.arange(1.0, 400.0, 3.0) * 2.0**-20])
    x = torch.tensor([2.0, 4.0, 2.0**100, 1.0, 3.0, -2.0, -1.0]).unsqueeze(1)
    return torch.cat([y, -y]), x


CASES = [
    Case("atan2", "near_midpoints", _near_midpoints),
    Case(
        "atan2",
        "wide",
        lambda: (floats(*range(0, 0x7F800000, 0x6000001)), floats(*range(1, 0x7F800000, 0x5000003)).unsqueeze(1)),
    ),
    *(
        Case(op, "permuted", lambda: (uniform(2, 3, 4, 5).permute(2, 0, 1),), dtypes=DOUBLE)
        for op in ("exp", "relu", "sqrt")
    ),
    *(Case(op, "margin", lambda op=op: (floats(*MARGIN[op]),)) for op in MARGIN),
    *(Case(op, "margin_2", lambda op=op: (floats(*MARGIN_2[op]),)) for op in MARGIN_2),
    # More than 64 pairs of vectors in doubt (row_loop.hpp).
    *(Case(op, "margin_4", lambda op=op: (floats(*MARGIN_4[op] * 40),)) for op in MARGIN_4),
    # The first 16 are far from a margin: of two vectors that are computed at once the second is in doubt.
    *(
        Case(op, "margin_3", lambda op=op: (floats(*[0x3F000000] * 16, *MARGIN_3[op], *MARGIN_3[op]),))
        for op in MARGIN_3
    ),
    *(Case(op, "rows", lambda: (uniform(1, 5, 70), uniform(2, 70)), dtypes=EVERY) for op in ("add", "mul")),
    *(Case(op, "columns", lambda: (uniform(1, 5, 70), uniform(2, 5, 1)), dtypes=EVERY) for op in ("sub", "div")),
    Case("add", "not_wider", lambda: (torch.tensor([2.0**24, 1.0]), torch.tensor([1.0, 2.0**-24])), dtypes=DOUBLE),
    Case(
        "mul", "subnormal", lambda: (uniform(1, 200, scale=2.0**-100), uniform(2, 200, scale=2.0**-40)), dtypes=DOUBLE
    ),
    Case("div", "not_by_reciprocal", lambda: (torch.full((50,), 5.0), torch.arange(1.0, 51.0))),
    Case("div_floor", "near_integers", _near_integers, dtypes=DOUBLE),
    Case("relu_backward", "special", _same_shape, dtypes=EVERY),
    Case("relu_backward", "values", lambda: (uniform(1, 1037), uniform(2, 1037)), dtypes=EVERY),
    Case("acosh", "strided_up_to_32", lambda: (uniform(1, 15, 18, scale=32.0).abs()[:, ::3],), dtypes=EVERY),
    Case("relu_backward", "strided", lambda: (uniform(1, 9, 40).t(), uniform(2, 80, 18)[::2, ::2]), dtypes=EVERY),
    Case("relu_backward", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5)), dtypes=EVERY),
    Case("maximum_backward", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5), uniform(3, 0, 5)), dtypes=EVERY),
    Case("maximum_backward", "special", lambda: (uniform(1, 17, 17, special=True), *_same_shape()), dtypes=EVERY),
    Case("maximum_backward", "values", lambda: (uniform(1, 1037), uniform(2, 1037), uniform(3, 1037)), dtypes=EVERY),
    *broadcast_cases("clamp", 1, 0, (-0.3, 0.7)),
    *broadcast_cases("clamp", 1, 1, (0.5, -0.5)),
    *broadcast_cases("clamp", 1, 2, (float("-inf"), float("nan"))),
    *broadcast_cases("clamp_backward", 2, 0, (-0.3, 0.7), same_shape=True),
    Case("where", "special", lambda: (_some(1, 17, 17), *special_pairs()), dtypes=EVERY),
    Case("where", "values", lambda: (_some(1, 1037), uniform(2, 1037), uniform(3, 1037)), dtypes=EVERY),
    Case("where", "strided", lambda: (_some(1, 40, 18)[:, ::2], uniform(2, 9, 40).t(), uniform(3, 40, 9))),
    Case("where", "one_condition", lambda: (torch.tensor(True), uniform(2, 5, 7), uniform(3, 7))),
    Case("where", "numbers", lambda: (_some(1, 5, 7), torch.tensor(0.3), torch.tensor(-0.0))),
    Case("where", "empty", lambda: (_some(1, 0, 5), uniform(2, 5), uniform(3, 0, 5))),
    Case("where", "dim_0", lambda: (torch.tensor(False), uniform(2), uniform(3))),
    Case("sinc", "subnormal", lambda: (uniform(1, 20, scale=2.0**125),)),  # its results are
    Case(
        "add_alpha", "fused", lambda: (torch.tensor([-1.0, 2.0**24]), torch.tensor([1 + 2.0**-23, 1.0]), 1 - 2.0**-24)
    ),
]
