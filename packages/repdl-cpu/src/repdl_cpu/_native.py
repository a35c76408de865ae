"""How kernels run on this machine: those of the best ISA, on the number of threads that is set."""

from __future__ import annotations

from repdl.registry.native import Native
from repdl.settings.threads import get_num_threads
from repdl_cpu._memory import huge_pages
from repdl_cpu.isa import native

NATIVE = Native(
    kernels=lambda tensor: native().kernels,
    run=lambda tensor: (get_num_threads(), 0, 0),
    fresh=huge_pages,
)
