"""CUDA backend of RepDL: kernels with the bits of the CPU, on every NVIDIA GPU.

Importing this package needs no GPU; importing its module `backends` raises without one, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from repdl.backend import Backend
from repdl_cuda.native import NATIVE

__version__ = "0.1.0"


def make_backend(name: str, device: str, priority: int, describe: Callable[[], Mapping[str, str]]) -> Backend:
    """A backend of all families; which native module an op runs in follows from its tensors."""
    ops, float64 = NATIVE.implement(NATIVE.kernels(torch.empty(0, device=device)))
    return Backend(
        name=name,
        device=device,
        ops=ops,
        priority=priority,
        float64=float64,
        describe=lambda: {"version": __version__, **describe()},
    )


__all__ = ["make_backend"]
