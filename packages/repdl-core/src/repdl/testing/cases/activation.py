"""Cases of the activations: special values, every magnitude, layouts."""

from __future__ import annotations

import torch

from repdl.testing.cases import EVERY, Case
from repdl.testing.inputs import SPECIAL, uniform

KINDS: dict[str, list[tuple[str | float, ...]]] = {
    "silu": [()],
    "gelu": [("none",), ("tanh",)],
    "hardswish": [()],
    "leaky_relu": [(0.01,), (-0.3,)],
    "softplus": [(1.0, 20.0), (0.7, 2.0)],
}


def _specials() -> torch.Tensor:
    return torch.tensor([*SPECIAL, 2.0, -1.0, -3.5, 3e38, -3e38, 1e-40, 0.1, -20.0, 1e13, -1e13])


INPUTS = {
    "special": _specials,
    "values": lambda: uniform(1, 1037, scale=8.0),
    "wide": lambda: uniform(1, 300, scale=128.0),
    "tiny": lambda: uniform(1, 300, scale=2.0**-120),
    "strided": lambda: uniform(2, 30, 9)[::2, 1::3],
    "permuted": lambda: uniform(2, 3, 4, 5).permute(2, 0, 1),
    "empty": lambda: uniform(2, 0, 5),
    "dim_0": lambda: uniform(2),
}

CASES = [
    case
    for op, kinds in KINDS.items()
    for i, kind in enumerate(kinds)
    for back in (False, True)
    for case in (
        Case(
            f"{op}_backward" if back else op,
            f"{name}_{i}",
            lambda m=make, k=kind, b=back: (uniform(9, *m().shape), m(), *k) if b else (m(), *k),
            dtypes=EVERY if name == "values" or (name, i) == ("special", 0) else (),
        )
        for name, make in INPUTS.items()
    )
]
CASES += [
    Case(f"{op}_backward", f"special_grad_{i}", lambda k=kind: (_specials(), uniform(1, len(_specials())), *k))
    for op, kinds in KINDS.items()
    if op in ("hardswish", "leaky_relu")
    for i, kind in enumerate(kinds)
]
CASES += [
    Case("softplus", "subnormal", lambda: (uniform(1, 300, scale=2.0**-127), 2.0**120, 20.0)),
    Case("softplus_backward", "subnormal", lambda: (uniform(2, 300), uniform(1, 300, scale=2.0**-127), 2.0**120, 20.0)),
]
CASES += [
    Case(f"{op}_backward", f"subnormal_{i}", lambda k=kind: (uniform(9, 300, scale=2.0**-130), uniform(1, 300), *k))
    for op, kinds in KINDS.items()
    for i, kind in enumerate(kinds)
]
