"""The functions of a whole Vec keep away from subnormal floats, which cost some processors a hundred cycles."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import repdl_cpu

NATIVE = Path(__file__).parents[1] / "native"
CONTRACT = Path(__file__).parents[1] / "contract/include"
SMALLEST_NORMAL = 2.0**-126
FLOAT = re.compile(r"(?<![\w.])(0x[0-9a-f.]+p[-+]?\d+|\d+\.\d*(?:e[-+]?\d+)?)f\b", re.IGNORECASE)


def floats(text: str) -> list[str]:
    """The float literals of C++ source, without their comments."""
    return [match[1] for line in text.splitlines() for match in FLOAT.finditer(line.split("//")[0])]


def value(literal: str) -> float:
    """What a literal is, rounded to float."""
    number = float.fromhex(literal) if literal.lower().startswith("0x") else float(literal)
    (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    return float(rounded)


def is_subnormal(literal: str) -> bool:
    return 0 < value(literal) < SMALLEST_NORMAL


def test_subnormal__literals_are_found() -> None:
    assert floats("x * 0x1.8p-3f + 1.5f; a.f = -0x1p-140f;  // 0x1p-149f") == ["0x1.8p-3", "1.5", "0x1p-140"]
    assert is_subnormal("0x1p-140") and is_subnormal("1e-40")
    assert not any(map(is_subnormal, ("0x1p-126", "0x0p+0", "1.0")))


@pytest.mark.skipif(not NATIVE.is_dir(), reason="no source tree of repdl-cpu here")
def test_subnormal__no_constant() -> None:
    sources = [*NATIVE.rglob("*.hpp"), *NATIVE.rglob("*.cpp"), *CONTRACT.rglob("*.hpp")]
    literals = [(path.name, literal) for path in sources for literal in floats(path.read_text())]
    assert len(literals) > 500
    assert [place for place in literals if is_subnormal(place[1])] == []


@pytest.mark.parametrize("isa", [isa for isa in ("avx2", "avx512") if isa in repdl_cpu.supported_isas()])
def test_subnormal__no_operand_and_no_result(isa: str, program: Callable[..., Path], tmp_path: Path) -> None:
    made = program(tmp_path, "subnormal", isa, "-O3")
    run = subprocess.run([str(made), "2003"], capture_output=True, text=True, check=True)
    rows = [line.split() for line in run.stdout.splitlines()]
    assert len(rows) == 13
    assert all(int(checked) > 100_000 for _, checked, _, _ in rows), run.stdout
    assert [row for row in rows if row[2] != "0"] == [], "FUNCTION CHECKED BAD FIRST"
