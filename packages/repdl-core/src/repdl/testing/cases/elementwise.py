"""Cases of the elementwise ops: special values against each other, broadcasting, layouts."""

from __future__ import annotations

import numpy as np
import torch

from repdl.registry import OPS
from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.exact_arguments import HARD, MARGIN, MARGIN_2, MARGIN_3
from repdl.testing.generated import broadcast_cases
from repdl.testing.inputs import SPECIAL, uniform

UNARY = tuple(op.name for op in OPS.values() if op.family == "elementwise" and op.schema == "(Tensor input) -> Tensor")
EXACT = tuple(op for op in UNARY if not OPS[op].takes(torch.float64))
BINARY = ("add", "sub", "mul", "div", "div_floor", "div_trunc", "maximum", "minimum")


def floats(*bits: int) -> torch.Tensor:
    """Float32 from their bit patterns."""
    return torch.from_numpy(np.array(bits, np.uint32).view(np.float32))


def _specials() -> torch.Tensor:
    return torch.tensor([*SPECIAL, 2.0, -1.0, -3.5, 3e38, -3e38, 1e-40, 0.1])


def _pairs() -> tuple[torch.Tensor, torch.Tensor]:
    x = _specials()
    return x.unsqueeze(1), x


def _same_shape() -> tuple[torch.Tensor, ...]:
    return tuple(torch.broadcast_tensors(*_pairs()))


CASES = [
    *(Case(op, "special", lambda: (_specials(),), dtypes=EVERY) for op in UNARY),
    *(Case(op, "values", lambda: (uniform(1, 1037, scale=4.0),), dtypes=EVERY) for op in UNARY),
    *(Case(op, "strided", lambda: (uniform(2, 30, 9)[::2, 1::3],), dtypes=EVERY) for op in UNARY),
    *(
        Case(op, "permuted", lambda: (uniform(2, 3, 4, 5).permute(2, 0, 1),), dtypes=DOUBLE)
        for op in ("exp", "relu", "sqrt")
    ),
    *(Case(op, "empty", lambda: (uniform(2, 0, 5),), dtypes=EVERY) for op in UNARY),
    *(Case(op, "dim_0", lambda: (uniform(2),), dtypes=DOUBLE) for op in UNARY),
    *(Case(op, "hard", lambda op=op: (floats(*HARD[op]),)) for op in HARD),
    *(Case(op, "margin", lambda op=op: (floats(*MARGIN[op]),)) for op in MARGIN),
    *(Case(op, "margin_2", lambda op=op: (floats(*MARGIN_2[op]),)) for op in MARGIN_2),
    # The first 16 are far from a margin: of two vectors that are computed at once the second is in doubt.
    *(
        Case(op, "margin_3", lambda op=op: (floats(*[0x3F000000] * 16, *MARGIN_3[op], *MARGIN_3[op]),))
        for op in MARGIN_3
    ),
    Case("exp", "wide", lambda: (uniform(3, 1500, scale=128.0),)),
    *(Case(op, "wide", lambda: (uniform(3, 1500, scale=110.0),)) for op in ("expm1", "sigmoid")),
    Case("exp2", "wide", lambda: (uniform(3, 1500, scale=160.0),)),
    *(
        Case(op, "wide", lambda: (floats(*range(0, 0x7F800000, 0x7F800000 // 500)),))
        for op in ("cos", "log10", "log1p", "log2", "rsqrt", "sin")
    ),
    Case("tanh", "wide", lambda: (floats(*range(0, 0x7F800000, 0x7F800000 // 1500)),)),
    Case("log", "wide", lambda: (floats(*range(0, 0x7F800000, 0x7F800000 // 1500)),)),
    *(Case(op, "special", _pairs, dtypes=EVERY) for op in BINARY),
    *(Case(op, "values", lambda: (uniform(1, 1037), uniform(2, 1037)), dtypes=EVERY) for op in BINARY),
    *(Case(op, "scalar_other", lambda: (uniform(1, 5, 7), torch.tensor(0.3)), dtypes=DOUBLE) for op in BINARY),
    *(Case(op, "scalar_input", lambda: (torch.tensor(0.3), uniform(1, 5, 7))) for op in BINARY),
    *(Case(op, "rows", lambda: (uniform(1, 5, 70), uniform(2, 70)), dtypes=EVERY) for op in ("add", "mul")),
    *(Case(op, "columns", lambda: (uniform(1, 5, 70), uniform(2, 5, 1)), dtypes=EVERY) for op in ("sub", "div")),
    *(Case(op, "outer", lambda: (uniform(1, 3, 1, 5, 1), uniform(2, 4, 1, 6)), dtypes=DOUBLE) for op in BINARY),
    *(Case(op, "transposed", lambda: (uniform(1, 9, 40).t(), uniform(2, 40, 9)), dtypes=EVERY) for op in BINARY),
    *(Case(op, "empty", lambda: (uniform(1, 0, 5), uniform(2, 5)), dtypes=EVERY) for op in BINARY),
    *(Case(op, "dim_0", lambda: (uniform(1), uniform(2)), dtypes=DOUBLE) for op in BINARY),
    Case("add", "not_wider", lambda: (torch.tensor([2.0**24, 1.0]), torch.tensor([1.0, 2.0**-24])), dtypes=DOUBLE),
    Case(
        "mul", "subnormal", lambda: (uniform(1, 200, scale=2.0**-100), uniform(2, 200, scale=2.0**-40)), dtypes=DOUBLE
    ),
    Case("square", "subnormal", lambda: (uniform(1, 200, scale=2.0**-66),), dtypes=DOUBLE),
    Case("reciprocal", "subnormal", lambda: (uniform(1, 200, scale=2.0**-126),), dtypes=DOUBLE),
    Case("div", "not_by_reciprocal", lambda: (torch.full((50,), 5.0), torch.arange(1.0, 51.0))),
    Case("relu_backward", "special", _same_shape, dtypes=EVERY),
    Case("relu_backward", "values", lambda: (uniform(1, 1037), uniform(2, 1037)), dtypes=EVERY),
    Case("relu_backward", "strided", lambda: (uniform(1, 9, 40).t(), uniform(2, 80, 18)[::2, ::2]), dtypes=EVERY),
    Case("relu_backward", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5)), dtypes=EVERY),
    Case("maximum_backward", "empty", lambda: (uniform(1, 0, 5), uniform(2, 0, 5), uniform(3, 0, 5)), dtypes=EVERY),
    Case("maximum_backward", "special", lambda: (uniform(1, 17, 17, special=True), *_same_shape()), dtypes=EVERY),
    Case("maximum_backward", "values", lambda: (uniform(1, 1037), uniform(2, 1037), uniform(3, 1037)), dtypes=EVERY),
]


def _some(seed: int, *shape: int) -> torch.Tensor:
    return uniform(seed, *shape) > 0


SEVERAL: dict[str, tuple[int, list[tuple[float, ...]]]] = {
    "add_alpha": (2, [(0.3,), (-2.0,)]),
    "addcdiv": (3, [(1.0,), (-0.7,)]),
    "addcmul": (3, [(1.0,), (0.1,)]),
    "clamp": (1, [(-0.3, 0.7), (0.5, -0.5), (float("-inf"), float("nan"))]),
    "clamp_backward": (2, [(-0.3, 0.7)]),
    "lerp": (2, [(0.3,), (1.5,)]),
    "lerp_tensor": (3, [()]),
}
"""Op -> the number of its tensors, and the numbers that follow them."""


CASES += [
    case
    for op, (n, kinds) in SEVERAL.items()
    for i, numbers in enumerate(kinds)
    for case in broadcast_cases(op, n, i, numbers, op.endswith("_backward"))
]
CASES += [
    Case("where", "special", lambda: (_some(1, 17, 17), *_pairs()), dtypes=EVERY),
    Case("where", "values", lambda: (_some(1, 1037), uniform(2, 1037), uniform(3, 1037)), dtypes=EVERY),
    Case("where", "strided", lambda: (_some(1, 40, 18)[:, ::2], uniform(2, 9, 40).t(), uniform(3, 40, 9))),
    Case("where", "one_condition", lambda: (torch.tensor(True), uniform(2, 5, 7), uniform(3, 7))),
    Case("where", "numbers", lambda: (_some(1, 5, 7), torch.tensor(0.3), torch.tensor(-0.0))),
    Case("where", "empty", lambda: (_some(1, 0, 5), uniform(2, 5), uniform(3, 0, 5))),
    Case("where", "dim_0", lambda: (torch.tensor(False), uniform(2), uniform(3))),
    Case(
        "add_alpha", "fused", lambda: (torch.tensor([-1.0, 2.0**24]), torch.tensor([1 + 2.0**-23, 1.0]), 1 - 2.0**-24)
    ),
]


def _near_integers() -> tuple[torch.Tensor, torch.Tensor]:
    """Quotients just below, at and above an integer, which rounding moves to it; both signs, also very small operands."""
    n, b = torch.arange(1.0, 41.0).unsqueeze(1), torch.tensor([3.0, 7.0, 0.1, -0.1, 1.3, -3e-39, 2.0**-149])
    a = n * b
    return torch.stack([a, a.nextafter(torch.tensor(0.0)), a.nextafter(2 * a)]), b


CASES += [Case("div_floor", "near_integers", _near_integers, dtypes=DOUBLE)]
