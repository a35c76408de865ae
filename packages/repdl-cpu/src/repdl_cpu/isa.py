"""Which of the compiled modules runs: the best one that the processor has, or a lower one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from repdl.errors import BackendError, SlowBackendWarning
from repdl.settings.generation import GENERATION
from repdl_cpu import _machine


def supported_isas() -> list[str]:
    """The ISA levels that this machine can run and that were built, best first.

    Raises:
        BackendError: if there is none.
    """
    known = list(_machine.supported_isas())
    built = [isa for isa in known if find_spec(f"repdl_cpu._{isa}")]
    if not built:
        raise BackendError(
            f"repdl-cpu: this processor has {', '.join(known)}, and none was built; build it here, or with "
            f"-Ccmake.define.REPDL_CPU_ISAS=all where it was built"
        )
    return built


def _best() -> str:
    """The best ISA level that can run; it warns if this processor has a better one that was not built."""
    best, has = supported_isas()[0], _machine.supported_isas()[0]
    if best != has:
        warnings.warn(
            f"repdl-cpu: this processor has {has}, and it was not built, so the slower kernels for {best} compute (the "
            f"same bits); build it here, or with -Ccmake.define.REPDL_CPU_ISAS=all where it was built",
            SlowBackendWarning,
            stacklevel=2,
        )
    return best


def _load(isa: str) -> Any:
    known = supported_isas()
    if isa not in known:
        raise BackendError(
            f"repdl-cpu: ISA {isa!r} asked for (REPDL_CPU_ISA), this build supports {', '.join(known)} here"
        )
    return import_module(f"repdl_cpu._{isa}")


class _Current:
    isa = os.environ.get("REPDL_CPU_ISA") or _best()
    module: Any = None


def native() -> Any:
    """The extension module of the current ISA."""
    if _Current.module is None:
        _Current.module = _load(_Current.isa)
    return _Current.module


def get_isa() -> str:
    """Name of the ISA level in use."""
    return _Current.isa


@contextmanager
def use_isa(isa: str) -> Iterator[None]:
    """Run kernels of another ISA level inside a `with` block, process-wide.

    Raises:
        BackendError: if the machine does not support it.
    """
    before = (_Current.isa, _Current.module)
    _Current.module, _Current.isa = _load(isa), isa
    GENERATION.advance()
    try:
        yield
    finally:
        _Current.isa, _Current.module = before
        GENERATION.advance()


native()
