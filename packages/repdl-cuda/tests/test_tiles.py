"""The speeds of tiles in gemm_run.hpp can be measured with one command, which is tried on the emulated kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import repdl

ROOT = Path(__file__).parents[3]
EMULATED = "cuda-emulated" in repdl.backends() and not repdl.backends()["cuda-emulated"].error


@pytest.mark.skipif(not EMULATED, reason="built without the emulated kernels")
def test_tiles__measured(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks/cuda_tiles.py", "--emulated", "--json", tmp_path / "tiles.json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "these figures say nothing of a GPU" in ran.stdout
    report = json.loads((tmp_path / "tiles.json").read_text())
    rows = [(row["dtype"], row["tile"], row["threads"]) for row in report["rows"]]
    assert rows == [("float", 128, 256), ("float", 64, 128), ("float", 32, 64), ("double", 64, 256), ("double", 32, 64)]
    assert report["about"]["emulated"] and all(row["milliseconds"] > 0 for row in report["rows"])
    assert [row["speed"] for row in report["rows"] if row["tile"] in (128, 64)][::2] == [1.0, 1.0]
    choices = [line for line in ran.stdout.splitlines() if line.startswith("Tilings<")]
    assert len(choices) == 2 and choices[0].startswith("Tilings<float>: choices[] = {{128, 256, 1.00}, {64, 128, ")
