"""CUDA backend of RepDL: kernels with the bits of the CPU, on every NVIDIA GPU.

Importing this package needs no GPU; importing its module `backends` raises without one, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from repdl.backend import Backend
from repdl.registry import ops_of

__version__ = "0.1.0"

SINGLE = {"activation", "cross_entropy", "pow", "softmax"}
"""Families without float64 kernels."""


def make_backend(name: str, device: str, priority: int, describe: Callable[[], Mapping[str, str]]) -> Backend:
    """A backend of all families; which native module an op runs in follows from its tensors."""
    ops = ops_of(__name__)
    return Backend(
        name=name,
        device=device,
        ops={op: function for table in ops.values() for op, function in table.items()},
        priority=priority,
        float64=[op for family, table in ops.items() if family not in SINGLE for op in table],
        describe=lambda: {"version": __version__, **describe()},
    )


__all__ = ["SINGLE", "make_backend"]
