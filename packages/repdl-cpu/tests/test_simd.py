"""The arithmetic of vectors on every ISA, by hard operands: products that the ISA has no instruction for among them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import repdl_cpu


@pytest.mark.parametrize("isa", repdl_cpu.supported_isas())
def test_simd__arithmetic(isa: str, program: Callable[..., Path], tmp_path: Path) -> None:
    run = subprocess.run([str(program(tmp_path, "simd", isa, "-O2"))], capture_output=True, text=True, check=True)
    rows = [line.split() for line in run.stdout.splitlines()]
    assert [name for name, *_ in rows] == ["fma", "add", "mul", "fma_double", "add_double", "mul_double"]
    assert all(int(checked) > 200_000 for _, checked, _, _ in rows), run.stdout
    assert [row for row in rows if row[2] != "0"] == [], "FUNCTION CHECKED WRONG FIRST"
