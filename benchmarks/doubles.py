"""float64: functions that are correctly rounded, and products, against torch's.

python benchmarks/doubles.py --threads 1 --rounds 5 --seconds 0.2
python benchmarks/doubles.py --only "exp,mm 1024"
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import turns

from repdl import ops

ELEMENTS = 1 << 20
FUNCTIONS = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc"), (-5.0, 5.0)),
    **dict.fromkeys(("sin", "cos", "tan", "atan", "asinh"), (-20.0, 20.0)),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "rsqrt"), (1e-3, 1e3)),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (-1.0, 1.0)),
    **dict.fromkeys(("acosh",), (1.0, 100.0)),
}
"""Function of one argument -> the range that the arguments are drawn from."""
PRODUCTS: dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]] = {
    "mm 1024": lambda: (normal(1024, 1024), normal(1024, 1024)),
    "mm 1024 (A transposed)": lambda: (normal(1024, 1024).t(), normal(1024, 1024)),
    "mm 1024 (B transposed)": lambda: (normal(1024, 1024), normal(1024, 1024).t()),
    "mm 256": lambda: (normal(256, 256), normal(256, 256)),
    "mm 512x64x512": lambda: (normal(512, 64), normal(64, 512)),
    "mm 32x784x256": lambda: (normal(32, 784), normal(256, 784).t()),
    "mm 1x1024x1024": lambda: (normal(1, 1024), normal(1024, 1024).t()),
}


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def between(low: float, high: float) -> torch.Tensor:
    return torch.empty(ELEMENTS, dtype=torch.float64).uniform_(low, high)


def argument(name: str) -> tuple[torch.Tensor]:
    """Of a function of one argument."""
    return (between(*FUNCTIONS[name]),)


def made() -> dict[str, tuple[str, Callable[[], tuple[Any, ...]]]]:
    """Name of a line -> the function, and what makes its arguments."""
    lines: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
        name: (name, partial(argument, name)) for name in FUNCTIONS
    }
    for name in ("pow", "atan2", "hypot"):
        lines[name] = (name, lambda: (between(0.1, 10.0), between(0.1, 10.0)))
    conv = normal(8, 16, 32, 32), normal(32, 16, 3, 3)
    return {**lines, "conv2d": ("conv2d", lambda: conv), **{name: ("mm", make) for name, make in PRODUCTS.items()}}


def main() -> None:
    lines = made()
    args = turns.arguments(__doc__, lines)
    for name in args.only.split(","):
        function, make = lines[name]
        values = make()
        theirs, ours = getattr(torch, function), getattr(ops, function)
        calls = {"repdl": lambda: ours(*values), "torch": lambda: theirs(*values)}
        turns.compare(f"float64 {name}", calls, args)


if __name__ == "__main__":
    main()
