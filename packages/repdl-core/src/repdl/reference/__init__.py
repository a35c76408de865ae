"""The reference backend: the contract texts as plain Python, and the oracle of every test.

It is slow on purpose: each function reads like its text. Vectors of independent outputs
are numpy arrays; whatever the contract orders is a Python loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import torch

from repdl.registry import in_float64, outputs
from repdl.registry.backend import Backend
from repdl.tensors import layout

_tiny, _one = 5e-324, 1.0  # variables: a product of constants is computed when Python compiles it


def _laid_out(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The outputs of `function`, which are row-major, in the layouts of the op."""
    empty = outputs(op)

    @wraps(function)
    def run(*args: Any) -> Any:
        result, outputs = function(*args), empty(*args)
        if isinstance(result, tuple):
            return tuple(layout.stored(*pair) for pair in zip(result, outputs))
        return result if result is None else layout.stored(result, outputs)

    return run


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


_modules = (import_module(module.name) for module in walk_packages(__path__, f"{__name__}."))
OPS = {
    op: _ieee(_laid_out(op, function))
    for module in _modules
    for op, function in getattr(module, "OPS", {}).items()  # a family's; others are what families share
}

backend = Backend(
    name="reference",
    device="cpu",
    ops=OPS,
    priority=-100,
    float64=in_float64(OPS),
    describe=lambda: {"language": "Python"},
)
