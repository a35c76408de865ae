"""The arithmetic of vectors on every ISA, by hard operands: products that the ISA has no instruction for among them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import repdl_cpu

SOURCE = Path(__file__).parent / "native/simd.cpp"
NATIVE = Path(os.environ.get("REPDL_CPU_TEST_NATIVE", Path(__file__).parents[1] / "native"))
CONTRACT = Path(__file__).parents[1] / "contract/include"
FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
MARCH = {"baseline": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}


@pytest.mark.skipif(not NATIVE.is_dir(), reason="no source tree of repdl-cpu here")
@pytest.mark.parametrize("isa", [isa for isa in MARCH if isa in repdl_cpu.supported_isas()])
def test_simd__arithmetic(isa: str, tmp_path: Path) -> None:
    compiler = os.environ.get("CXX", "c++")
    assert shutil.which(compiler), "needs a C++ compiler: c++, or $CXX"
    program = tmp_path / isa
    include = [f"-I{NATIVE}", f"-I{CONTRACT}"]
    subprocess.run([compiler, *FLAGS, f"-march={MARCH[isa]}", *include, str(SOURCE), "-o", str(program)], check=True)
    run = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    rows = [line.split() for line in run.stdout.splitlines()]
    assert [name for name, *_ in rows] == ["fma", "add", "mul", "fma_double", "add_double", "mul_double"]
    assert all(int(checked) > 200_000 for _, checked, _, _ in rows), run.stdout
    assert [row for row in rows if row[2] != "0"] == [], "FUNCTION CHECKED WRONG FIRST"
