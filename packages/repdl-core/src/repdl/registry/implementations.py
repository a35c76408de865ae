"""Which function computes an op on a backend."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from repdl.dtypes import FLOATS_16_BIT
from repdl.registry.backend import BACKENDS, Backend
from repdl.registry.op import OPS, Op
from repdl.registry.storage import formula_of_16_bit


def implement(op: str, backend: str, function: Callable[..., Any]) -> None:
    """Add an implementation of `op` to `backend`, which may be somebody else's.

    This is how an outside project brings the kernels of its own ops.
    """
    BACKENDS.implement(op, backend, function)


def undefine(name: str) -> None:
    """Take an op out again, with what `implement` added for it (for tests and notebooks).

    torch keeps the schema for the rest of the process.
    """
    OPS.pop(name)
    BACKENDS.formulas.pop(name, None)
    BACKENDS.forget(name)


def lookup(op: str, device: str, dtype: torch.dtype = torch.float32) -> Callable[..., Any]:
    """The implementation that a call of `op` with tensors of `dtype` on `device` reaches."""
    return BACKENDS.serve(op, device, torch.float32 if dtype in FLOATS_16_BIT else dtype)


def implementations(backend: Backend) -> dict[str, Callable[..., Any]]:
    """Op name -> implementation: the backend's own, those added with `implement`, and what is composed of them.

    They take every dtype that the op takes: 16-bit storage is widened and rounded around
    them, as in a call of the op.
    """
    kernels = BACKENDS.kernels(backend)
    composites = [name for name, op in OPS.items() if name not in kernels and _is_computed(op, kernels.keys())]
    return {name: _implementation(backend, kernels, name) for name in (*composites, *kernels)}


def implementation(backend: Backend, op: str) -> Callable[..., Any] | None:
    """The one of `implementations` for an op, or None."""
    kernels = BACKENDS.kernels(backend)
    known = op in kernels or (op in OPS and _is_computed(OPS[op], kernels.keys()))
    return _implementation(backend, kernels, op) if known else None


def _implementation(backend: Backend, kernels: Mapping[str, Callable[..., Any]], op: str) -> Callable[..., Any]:
    if op in kernels:
        return _any_dtype(backend, op, kernels[op])
    formula = OPS[op].formula
    assert formula is not None
    return _on_backend(backend, formula)


def _is_computed(op: Op, kernels: Collection[str]) -> bool:
    """Whether a backend with these kernels has the op, as a formula over others if not as one of them."""
    return op.name in kernels or (op.formula is not None and all(_is_computed(OPS[n], kernels) for n in op.calls))


def _on_backend(backend: Backend, formula: Callable[..., Any]) -> Callable[..., Any]:
    """A composite op as a backend computes it."""

    def run(*args: Any) -> Any:
        with BACKENDS.use(backend.name), torch.no_grad():
            return formula(*args)

    return run


def _any_dtype(backend: Backend, op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for every dtype of the op; raises for one that the backend has no kernel for."""
    storage = OPS[op].storage if op in OPS else None
    if storage is None or op == "cast":
        return function

    def run(*args: Any) -> Any:
        dtype = storage.storage_dtype(args)
        with BACKENDS.use(backend.name):
            if dtype in FLOATS_16_BIT:
                return storage.run(
                    formula_of_16_bit(op, storage) or function,
                    BACKENDS.serve("cast", backend.device, torch.float32),
                    args,
                )
            return BACKENDS.serve(op, backend.device, dtype)(*args)

    return run
