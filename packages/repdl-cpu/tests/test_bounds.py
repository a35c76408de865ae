"""Kernels read nothing past the end of a tensor: guarded.py in a process of its own, which may die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from repdl.registry import OPS

GUARDED = Path(__file__).with_name("guarded.py")
FAMILIES = sorted({op.family for op in OPS.values()} - {"adam_step", "sgd_step"})  # those take lists


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
@pytest.mark.parametrize("family", FAMILIES)
def test_bounds__nothing_is_read_past_the_end(family: str) -> None:
    child = subprocess.run([sys.executable, str(GUARDED), family], capture_output=True, text=True, check=False)
    assert child.returncode == 0 and "cases" in child.stdout, f"{child.returncode}: {child.stderr[-2000:]}"


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
def test_bounds__reading_too_far_is_caught() -> None:
    code = (
        "import ctypes, torch; from repdl.testing.guarded import guarded; x = guarded(torch.ones(5)); "
        "ctypes.string_at(x.data_ptr(), 20); print('inside', flush=True); ctypes.string_at(x.data_ptr(), 24)"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.stdout == "inside\n" and child.returncode < 0, (child.returncode, child.stderr)
