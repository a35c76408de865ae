"""CUDA backend of RepDL: kernels with the bits of the CPU, on every NVIDIA GPU.

Importing this package needs no GPU; importing its module `backends` raises without one, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from repdl.registry import Backend

__version__ = "0.1.0"

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
SINGLE = {"activation", "cross_entropy", "pow", "softmax"}
"""Those without float64 kernels."""


def make_backend(name: str, device: str, priority: int, describe: Callable[[], Mapping[str, str]]) -> Backend:
    """A backend of all families; which native module an op runs in follows from its tensors."""
    ops = {family: import_module(f"{__name__}.{family}").OPS for family in FAMILIES}
    return Backend(
        name=name,
        device=device,
        ops={op: function for table in ops.values() for op, function in table.items()},
        priority=priority,
        float64=[op for family, table in ops.items() if family not in SINGLE for op in table],
        describe=lambda: {"version": __version__, **describe()},
    )


__all__ = ["FAMILIES", "SINGLE", "make_backend"]
