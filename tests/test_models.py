"""Models of the usual kinds, converted and trained (examples/models.py): one digest each on any machine."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

import repdl
from repdl.testing import processes

SCRIPT = Path(__file__).parents[1] / "examples" / "models.py"
PRINTED = Path(__file__).parents[1] / "docs/gallery/models.txt"
"""What docs/gallery.md says."""
USABLE = [name for name, row in repdl.backends().items() if row.error is None]
ISAS = repdl.backends()["cpu"].details["supported"].split() if "cpu" in USABLE else []
SAMPLE = [("default", "baseline", "3"), ("avx512", "avx512", "2")]
"""Of torch's level of instructions, ours, and threads: each value."""
MATRIX = list(product(("default", "avx2", "avx512"), ("baseline", "avx2", "avx512"), "123"))


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return processes.python(SCRIPT, *args, environment={**os.environ, **env})


def check(capability: str, isa: str, threads: str) -> None:
    if isa not in ISAS:
        pytest.skip(f"repdl-cpu is not installed or this machine does not support {isa}")
    done = run("--threads", threads, ATEN_CPU_CAPABILITY=capability, REPDL_CPU_ISA=isa)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All digests equal those recorded." in done.stdout
    assert done.stdout == PRINTED.read_text()
    for line in done.stdout.splitlines()[:-1]:
        name, _, first, _, last, *_ = line.split()
        assert name == "gan" or float(last) < 0.5 * float(first), line


@pytest.mark.parametrize("row", SAMPLE, ids="-".join)
def test_models__recorded_bits(row: tuple[str, str, str]) -> None:
    check(*row)


@pytest.mark.nightly
@pytest.mark.parametrize("row", [row for row in MATRIX if row not in SAMPLE], ids="-".join)
def test_models__every_combination(row: tuple[str, str, str]) -> None:
    check(*row)


@pytest.mark.skipif("cuda-emulated" not in USABLE, reason="no emulated build of repdl-cuda")
@pytest.mark.nightly
def test_models__cuda_emulated() -> None:
    assert run("gpt", "vae", REPDL_BACKEND="cuda-emulated").returncode == 0


@pytest.mark.skipif(not ISAS, reason="repdl-cpu is not installed")
def test_models__another_digest_is_said() -> None:
    """The comparison of the script can fail."""
    code = f"import sys; sys.argv = ['models', 'vae']; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
    code += "import models; models.STEPS = 1; sys.exit(models.main())"
    done = processes.python("-c", code)
    assert done.returncode == 1 and "vae: not the digests recorded" in done.stdout, done.stderr


def test_models__all_are_recorded() -> None:
    names = set(json.loads((SCRIPT.parent / "recorded_models.json").read_text()))
    assert names == {"bert", "gan", "gpt", "lstm", "resnet18", "unet", "vae", "vit"}
