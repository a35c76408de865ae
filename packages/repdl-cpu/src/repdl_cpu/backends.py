"""The entry point of repdl: `cpu`."""

from __future__ import annotations

from repdl.registry.backend import Backend
from repdl_cpu import __version__, _machine
from repdl_cpu._native import NATIVE
from repdl_cpu.isa import get_isa, native, supported_isas

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
        "team": _machine.thread_team(),
    },
)
