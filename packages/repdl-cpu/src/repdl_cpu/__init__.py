"""CPU backend of RepDL: C++ kernels, one source for every ISA, picked at run time.

`REPDL_CPU_ISA` (baseline, avx2, avx512) caps what is picked. The bits do not depend on it.
"""

from __future__ import annotations

from repdl_cpu.isa import get_isa, supported_isas, use_isa

__version__ = "0.1.0"

__all__ = ["get_isa", "supported_isas", "use_isa"]
