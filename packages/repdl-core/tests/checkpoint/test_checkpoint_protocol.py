"""Stop anywhere, go on in another process, with other threads and another ISA: the digest of a run that never stopped.

And the controls: with one state left out, the protocol sees it, and names the state.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repdl.checkpoint import diff
from repdl.testing import processes

PROGRAM = Path(__file__).with_name("programs_that_stop.py")
STOPS = ["1", "7", "8", "13"]
"""After the first batch, in the middle of the second epoch (7 is between two batches of one step), and the last."""
ELSEWHERE = [("baseline", "3"), ("", "2")]
"""The ISA level, "" for the best one, and the number of threads of a process that goes on."""
LEFT_OUT = {
    "lenet": ["generators", "optimizer", "scheduler", "sampler"],
    "decoder": ["generators", "optimizer", "scheduler", "sampler", "scaler", "gradients"],
}


def run(*arguments: object, isa: str = "", threads: str = "1") -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": threads, **({"REPDL_CPU_ISA": isa} if isa else {})}
    done = processes.python(PROGRAM, *arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.fixture(scope="module", params=LEFT_OUT)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, str]:
    """A program, the checkpoints of its run, and the digest of the end."""
    folder = tmp_path_factory.mktemp(request.param)
    (digest,) = run(request.param, "run", folder)
    return request.param, folder, digest


@pytest.mark.parametrize("isa, threads", [ELSEWHERE[0], pytest.param(*ELSEWHERE[1], marks=pytest.mark.nightly)])
def test_protocol__goes_on_elsewhere(whole: tuple[str, Path, str], isa: str, threads: str, tmp_path: Path) -> None:
    name, folder, digest = whole
    lines = run(name, "resume", folder, tmp_path, *STOPS, isa=isa, threads=threads)
    assert lines == [f"{stop} {digest}" for stop in STOPS]
    assert not any(diff(folder, tmp_path / f"{stop}_") for stop in STOPS)


def test_protocol__controls_differ(whole: tuple[str, Path, str], tmp_path: Path) -> None:
    """Each names the state that was left out, at the step where the run went on."""
    name, folder, digest = whole
    lines = run(name, "resume", folder, tmp_path, *(f"7:{state}" for state in LEFT_OUT[name]))
    for state, line in zip(LEFT_OUT[name], lines, strict=True):
        assert line.split()[0] == f"7:{state}" and line.split()[1] != digest, f"without {state} nothing differs"
        (first, *_) = diff(folder, tmp_path / f"7_{state}")
        assert first.path.startswith(f"step-7: {state}/"), first
