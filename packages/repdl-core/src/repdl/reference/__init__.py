"""The reference backend: the contract texts as plain Python, and the oracle of every test.

It is slow on purpose: each function reads like its text. Vectors of independent outputs
are numpy arrays; whatever the contract orders is a Python loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import torch

from repdl.registry import Backend

_tiny, _one = 5e-324, 1.0  # variables: a product of constants is computed when Python compiles it


def _ieee(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run with subnormals on, whatever the caller has set, and put the setting back."""

    @wraps(function)
    def run(*args: Any) -> Any:
        if _tiny * _one != 0.0:
            return function(*args)
        torch.set_flush_denormal(False)
        try:
            return function(*args)
        finally:
            torch.set_flush_denormal(True)

    return run


FAMILIES = (
    "activation",
    "adam_step",
    "batch_norm",
    "cast",
    "conv2d",
    "cross_entropy",
    "elementwise",
    "group_norm",
    "layer_norm",
    "linear",
    "matmul",
    "max",
    "max_pool2d",
    "nll_loss",
    "pad",
    "pow",
    "rms_norm",
    "sgd_step",
    "softmax",
    "sum",
)
"""The modules of this package that hold ops: one a family."""

OPS = {
    op: _ieee(function)
    for family in FAMILIES
    for op, function in import_module(f"{__name__}.{family}").OPS.items()
}

backend = Backend(
    name="reference",
    device="cpu",
    ops=OPS,
    priority=-100,
    float64=OPS.keys(),
    describe=lambda: {"language": "Python"},
)
