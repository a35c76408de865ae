"""CPU backend of RepDL: C++ kernels, one source for every ISA, picked at run time.

`REPDL_CPU_ISA` (baseline, avx2, avx512) caps what is picked. The bits do not depend on it.
"""

from __future__ import annotations

import torch

from repdl.backend import Backend
from repdl.native import implement_all
from repdl.registry import in_float64, ops_of
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import get_isa, kernels, supported_isas, threads, use_isa

__version__ = "0.1.0"

_native, _float64 = implement_all(kernels(torch.empty(0)), kernels, threads, huge_pages)
_glue = {op: function for ops in ops_of(__name__).values() for op, function in ops.items()}

backend = Backend(
    name="cpu",
    device="cpu",
    ops=_glue | _native,
    priority=100,
    float64=[*in_float64(_glue), *_float64],
    describe=lambda: {"version": __version__, "isa": get_isa(), "supported": " ".join(supported_isas())},
)

__all__ = ["backend", "get_isa", "supported_isas", "use_isa"]
