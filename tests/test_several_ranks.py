"""examples/several_ranks.py: one digest of a number of ranks, that of docs/ranks.md, on fewer processes too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples/several_ranks.py"
OF_TORCH = ("lenet", "gpt", "zero", "fsdp2", "tensor-parallel")
PACKAGES = {"accelerate": "accelerate", "trainer": "transformers", "lightning": "lightning"}
REAL = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "repdl", "run"
ALONE = "-m", "repdl", "run", "--ranks=2", "--quiet"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not hasattr(torch.library, "get_kernel"), reason="needs torch 2.13 with torch.distributed"),
]


def _digests(launcher: tuple[str, ...], *programs: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, *launcher, str(SCRIPT), *programs],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = dict(re.findall("^digest (.*) ([0-9a-f]{64})$", done.stdout, re.MULTILINE))
    assert found.keys() == set(programs), (done.stdout, done.stderr)
    return found


def _recorded(program: str, ranks: int) -> str:
    """The digest of the page."""
    lines = (ROOT / "docs/ranks.md").read_text().splitlines()
    rows = {line.split("|")[1].strip(): line.split("|")[2:] for line in lines if line.startswith("| ")}
    return rows[program][[cell.strip() for cell in rows["program"]].index(str(ranks))].strip(" `")


def test_several_ranks__of_torch() -> None:
    """Those of the page, which its other ways to begin ranks have."""
    for name, digest in _digests(ALONE, *OF_TORCH).items():
        assert digest[:12] == _recorded(name, 2), name


@pytest.mark.parametrize("program", PACKAGES)
def test_several_ranks__of_other_projects(program: str) -> None:
    """Begun by one process, and one process each; other versions of a package have other digests."""
    pytest.importorskip(PACKAGES[program])
    assert _digests(ALONE, program) == _digests(REAL, program)
