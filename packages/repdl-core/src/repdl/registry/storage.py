"""Formulas of ops on tensors of 16-bit floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repdl.dtypes import HALF, PrecisionRules
from repdl.registry import functions
from repdl.registry.backend import BACKENDS


def of_any_storage(formula: Callable[..., Any], storage: PrecisionRules | None) -> Callable[..., Any]:
    """A formula that sees float32 and float64 only, for half storage too."""
    if storage is None:
        return formula

    def compute(*args: Any) -> Any:
        half = storage.storage_dtype(args) in HALF
        return storage.run(formula, functions.cast, args) if half else formula(*args)

    return compute


def formula_of_halves(op: str, storage: PrecisionRules | None) -> Callable[..., Any] | None:
    """The formula that computes an op on half storage even where a backend has a kernel: its ops round, each of them,
    and the kernel would round what the whole gives."""
    return BACKENDS.formulas.get(op) if storage is not None and storage.dtypes.moves else None
