"""CPU backend of RepDL: C++ kernels, one source for every ISA, picked at run time.

`REPDL_CPU_ISA` (baseline, avx2, avx512) caps what is picked. The bits do not depend on it.
"""

from __future__ import annotations

from repdl.backend import Backend
from repdl_cpu._native import NATIVE
from repdl_cpu.isa import get_isa, native, supported_isas, use_isa

__version__ = "0.1.0"

_ops, _float64 = NATIVE.implement(native().kernels)

backend = Backend(
    name="cpu",
    device="cpu",
    ops=_ops,
    priority=100,
    float64=_float64,
    describe=lambda: {
        "version": __version__,
        "isa": get_isa(),
        "supported": " ".join(supported_isas()),
        "team": native().thread_team(),
    },
)

__all__ = ["backend", "get_isa", "supported_isas", "use_isa"]
