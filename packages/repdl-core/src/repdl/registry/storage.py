"""Formulas of ops on tensors of 16-bit floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repdl.dtypes import FLOATS_16_BIT, PrecisionRules
from repdl.registry import functions
from repdl.registry.backend import BACKENDS


def of_any_storage(formula: Callable[..., Any], storage: PrecisionRules | None) -> Callable[..., Any]:
    """A formula that sees float32 and float64 only, for 16-bit storage too."""
    if storage is None:
        return formula

    def compute(*args: Any) -> Any:
        is_16_bit = storage.storage_dtype(args) in FLOATS_16_BIT
        return storage.run(formula, functions.cast, args) if is_16_bit else formula(*args)

    return compute


def formula_of_16_bit(op: str, storage: PrecisionRules | None) -> Callable[..., Any] | None:
    """The formula that computes an op on 16-bit storage even where a backend has a kernel: its ops round, each of them,
    and the kernel would round what the whole gives."""
    return BACKENDS.formulas.get(op) if storage is not None and storage.dtypes.keeps_16_bit else None
