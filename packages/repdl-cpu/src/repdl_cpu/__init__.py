"""CPU backend of RepDL: C++ kernels, one source for every ISA, picked at run time.

`REPDL_CPU_ISA` (baseline, avx2, avx512) caps what is picked. The bits do not depend on it.
"""

from __future__ import annotations

from repdl.backend import Backend
from repdl.registry import ops_of
from repdl_cpu.isa import get_isa, supported_isas, use_isa

__version__ = "0.1.0"

SINGLE = {"activation", "cross_entropy", "pow", "softmax"}
"""Families without float64 kernels."""

_ops = ops_of(__name__)

backend = Backend(
    name="cpu",
    device="cpu",
    ops={op: function for ops in _ops.values() for op, function in ops.items()},
    priority=100,
    float64=[op for family, ops in _ops.items() if family not in SINGLE for op in ops],
    describe=lambda: {"version": __version__, "isa": get_isa(), "supported": " ".join(supported_isas())},
)

__all__ = ["backend", "get_isa", "supported_isas", "use_isa"]
