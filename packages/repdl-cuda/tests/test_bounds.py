"""Kernels read nothing past the end of a tensor: guarded.py in a process of its own, which may die."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from repdl.registry import OPS

GUARDED = Path(__file__).with_name("guarded.py")
LISTS = {op.family for op in OPS.values() if op.takes_lists}
"""Families whose cases hold lists of tensors."""
FAMILIES = sorted({op.family for op in OPS.values()} - LISTS)
PROCESSES = 4


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
@pytest.mark.skipif(find_spec("repdl_cuda._emulated") is None, reason="built without the emulated kernels")
@pytest.mark.parametrize("process", range(PROCESSES))
def test_bounds__nothing_is_read_past_the_end(process: int) -> None:
    families = FAMILIES[process::PROCESSES]
    child = subprocess.run([sys.executable, str(GUARDED), *families], capture_output=True, text=True, check=False)
    last = "".join(child.stdout.splitlines()[-1:])
    assert child.returncode == 0 and last.endswith("cases"), f"{child.returncode} in {last}: {child.stderr[-2000:]}"
