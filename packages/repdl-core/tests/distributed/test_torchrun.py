"""Programs that are not edited, started by torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ddp_programs
import pytest
import ranks

PROGRAM = Path(__file__).parent / "train_ddp.py"
pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)


def _torchrun(*arguments: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "repdl"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "BUCKET_MB": "0.001"}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torchrun__has_the_digest_of_enable() -> None:
    """With other buckets, and another rendezvous."""
    expected = ranks.run(ddp_programs.trained, 2, str(PROGRAM))
    assert expected[0] == expected[1]
    assert f"digest {expected[0]}" in _torchrun("run", str(PROGRAM))


def test_torchrun__check() -> None:
    assert "0 differ" in _torchrun("check", "--distributed")
