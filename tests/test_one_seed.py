"""A training run from one seed (examples/one_seed.py): one hash whatever the processor, threads and workers."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

import repdl
from repdl.testing import processes

SCRIPT = Path(__file__).parents[1] / "examples" / "one_seed.py"
PRINTED = Path(__file__).parents[1] / "docs/gallery/one_seed.txt"
"""What docs/gallery.md says."""
USABLE = [name for name, row in repdl.backends().items() if row.error is None]
ISAS = repdl.backends()["cpu"].details["supported"].split() if "cpu" in USABLE else []
SAMPLE = [
    ("default", "baseline", "1", "2"),
    ("avx2", "avx2", "2", "0"),
    ("avx512", "avx512", "2", "2"),
]
"""Of torch's level of instructions, ours, threads and workers: each value; all of them at night."""
MATRIX = list(product(("default", "avx2", "avx512"), ("baseline", "avx2", "avx512"), "12", "02"))


def run(*args: str, **env: str) -> str:
    done = processes.python(SCRIPT, *args, environment={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(capability: str, isa: str, threads: str, workers: str) -> None:
    if isa not in ISAS:
        pytest.skip(f"repdl-cpu is not installed or this machine does not support {isa}")
    output = run("--threads", threads, "--workers", workers, ATEN_CPU_CAPABILITY=capability, REPDL_CPU_ISA=isa)
    assert "All hashes equal those recorded." in output
    assert output == PRINTED.read_text()


@pytest.mark.parametrize("row", SAMPLE, ids="-".join)
def test_one_seed__recorded_bits(row: tuple[str, str, str, str]) -> None:
    check(*row)


@pytest.mark.nightly
@pytest.mark.parametrize("row", [row for row in MATRIX if row not in SAMPLE], ids="-".join)
def test_one_seed__every_combination(row: tuple[str, str, str, str]) -> None:
    check(*row)


@pytest.mark.skipif("cuda-emulated" not in USABLE, reason="no emulated build of repdl-cuda")
@pytest.mark.nightly
def test_one_seed__cuda_emulated() -> None:
    assert "All hashes equal those recorded." in run(REPDL_BACKEND="cuda-emulated")


def test_one_seed__another_seed_is_another_run() -> None:
    """The comparison of the script can fail."""
    code = f"import sys; sys.argv = ['one_seed']; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
    code += "import one_seed; one_seed.SEED, one_seed.EPOCHS = 1, 1; sys.exit(one_seed.main())"
    done = processes.python("-c", code)
    assert done.returncode == 1 and "differ from the recorded ones" in done.stdout, done.stderr
