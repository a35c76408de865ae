"""The emulated machine: each feature of CUDA, its errors, and what the sanitizers see of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "native/emulation.cu"
CASES = re.findall(r'^    \{"(\w+)"', SOURCE.read_text(), re.MULTILINE)
RACES = {"missing_barrier", "thread_order", "warp_overtakes"}
"""Those whose threads race, which ThreadSanitizer must say."""


def test_emulation__cases() -> None:
    assert len(CASES) >= 11


@pytest.mark.parametrize("sanitizer", ["", "address", "thread"])
@pytest.mark.parametrize("name", CASES)
def test_emulation__case(name: str, sanitizer: str, build) -> None:  # type: ignore[no-untyped-def]
    program = build(SOURCE, sanitizer=sanitizer)
    ran = subprocess.run([program, name], capture_output=True, text=True, check=False)
    if sanitizer == "thread" and name in RACES:
        assert ran.returncode != 0 and "data race" in ran.stderr
    else:
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_emulation__division_by_known_numbers(build) -> None:  # type: ignore[no-untyped-def]
    """Which kernels do by a multiplication and a shift: indices up to the largest."""
    ran = subprocess.run([build(SOURCE.with_name("divide.cu"))], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
