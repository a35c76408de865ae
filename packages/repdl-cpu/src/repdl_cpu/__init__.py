"""CPU backend of RepDL: C++ kernels, one source for every ISA, picked at run time.

`REPDL_CPU_ISA` (baseline, avx2, avx512) caps what is picked. The bits do not depend on it.
"""

from __future__ import annotations

from repdl.backend import Backend
from repdl.registry import in_float64, ops_of
from repdl_cpu._native import NATIVE
from repdl_cpu.isa import get_isa, native, supported_isas, use_isa

__version__ = "0.1.0"

_kernels, _float64 = NATIVE.implement(native().kernels)
_glue = {op: function for ops in ops_of(__name__).values() for op, function in ops.items()}

backend = Backend(
    name="cpu",
    device="cpu",
    ops=_glue | _kernels,
    priority=100,
    float64=[*in_float64(_glue), *_float64],
    describe=lambda: {
        "version": __version__,
        "isa": get_isa(),
        "supported": " ".join(supported_isas()),
        "team": native().thread_team(),
    },
)

__all__ = ["backend", "get_isa", "supported_isas", "use_isa"]
