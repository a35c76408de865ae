"""`repdl run --ranks`: M ranks of torch.distributed on fewer processes, and how they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import ddp_programs
import pytest
import ranks

from repdl.cli import main
from repdl.launcher.share import share_of
from repdl.overrides.program import NotBegunError

PROGRAM = Path(__file__).parent / "train_ranks.py"
needs_ranks = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)
RUN = [sys.executable, "-m", "repdl", "run"]
SETTINGS = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
"""One thread a rank, and rank 0, whose output nobody reads first, writes whole lines."""


def _run(*arguments: object, torchrun: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """`repdl run`, by torchrun with these arguments, or alone."""
    launcher = [sys.executable, "-m", "torch.distributed.run", *torchrun]
    command = [*launcher, *RUN[1:]] if torchrun else RUN
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **SETTINGS},
    )  # fmt: skip


def _digest(*arguments: object, processes: int = 0) -> str:
    """Of a program, by torchrun on a number of processes, or alone."""
    done = _run(*arguments, torchrun=["--standalone", "--nproc-per-node", str(processes)] if processes else ())
    assert done.returncode == 0, done.stderr
    found = re.findall("^digest (.*?) ", done.stdout, re.MULTILINE)
    assert len(found) == 1, (done.stdout, done.stderr)
    return str(found[0])


def _of_ranks(world: int, *arguments: str) -> str:
    """The digest of as many ranks as processes."""
    (found,) = {*ranks.run(ddp_programs.trained, world, str(PROGRAM), *arguments)}
    return str(found)


@needs_ranks
def test_launcher__has_the_digest_of_as_many_processes() -> None:
    """Three ranks alone, and on two processes, one of which has two of them; other data have another digest."""
    expected = _of_ranks(3)
    assert _digest("--ranks", 3, PROGRAM) == expected
    assert _digest("--ranks", 3, PROGRAM, processes=2) == expected
    assert _of_ranks(3, "--shift", "1") != expected


@needs_ranks
@pytest.mark.nightly
@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_launcher__any_number_of_processes(world: int) -> None:
    expected = _of_ranks(world)
    assert _digest("--ranks", world, PROGRAM) == expected
    for processes in {1, 2, 3, world}:
        if processes <= world:
            assert _digest("--ranks", world, PROGRAM, processes=processes) == expected, processes


@needs_ranks
@pytest.mark.nightly
def test_launcher__resumes_on_other_processes(tmp_path: Path) -> None:
    """Four ranks, on three processes, then one, then two."""
    expected = _digest("--ranks", 4, PROGRAM, "--steps", 9, processes=4)
    first, second = tmp_path / "first", tmp_path / "second"
    stopped = _digest("--ranks", 4, PROGRAM, "--steps", 4, "--into", first, processes=3)
    middle = ["--first", 4, "--steps", 6, "--from", first, "--into", second]
    assert _digest("--ranks", 4, PROGRAM, *middle) != stopped
    last = ["--first", 6, "--steps", 9, "--from", second]
    assert _digest("--ranks", 4, PROGRAM, *last, processes=2) == expected
    assert _digest("--ranks", 4, PROGRAM, "--first", 6, "--steps", 9, "--from", first, processes=2) != expected


@needs_ranks
@pytest.mark.nightly
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_launcher__goes_on_after_a_rank_was_killed(
    processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the backward pass; torchrun begins again, from the last checkpoint. Three processes are the ranks."""
    expected = _digest("--ranks", 3, PROGRAM, "--steps", 5)
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    torchrun = ["--standalone", "--nproc-per-node", str(processes), "--max-restarts", "1"]
    own = [] if processes == 3 else ["--ranks", 3]
    command = [*own, PROGRAM, "--steps", 5, "--keep", tmp_path, "--kill-backward", 1]
    done = _run(*command, torchrun=torchrun)
    assert re.findall("^digest (.*?) ", done.stdout, re.MULTILINE) == [expected], (done.stdout, done.stderr)
    assert "from 2" in done.stdout, done.stdout


@needs_ranks
def test_launcher__a_rank_that_raises_ends_all() -> None:
    """Its traceback is shown, though ranks other than 0 are silent, and it is named, though another one ends first."""
    done = _run("--ranks", 2, "--quiet", PROGRAM, "--fail", 1)
    assert done.returncode == 1
    assert re.search(r"^\[rank 1\] .*ValueError: this rank fails$", done.stderr, re.MULTILINE), done.stderr
    assert "\nrepdl run: rank 1 of 2 ended with status 1" in done.stderr, done.stderr


@needs_ranks
def test_launcher__a_rank_that_is_killed_ends_all() -> None:
    done = _run("--ranks", 2, PROGRAM, "--kill", 0)
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert "repdl run: rank 0 of 2 was ended by SIGKILL; ranks that still run here are ended" in done.stderr, (
        done.stderr
    )


@needs_ranks
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGTERM, signal.SIGKILL]
)
def test_launcher__a_signal_ends_all(number: signal.Signals, tmp_path: Path) -> None:
    """Nothing is left behind, not even where the process that waits can't do anything about it."""
    command = [*RUN, "--ranks", "2", str(PROGRAM), "--wait"]
    environment = {**os.environ, **SETTINGS, "PYTHONFAULTHANDLER": "1"}
    with (
        (tmp_path / "errors").open("w+") as errors,
        subprocess.Popen(command, text=True, env=environment, stdout=subprocess.PIPE, stderr=errors) as run,
    ):
        late = threading.Timer(120, run.send_signal, [signal.SIGABRT])  # it says what it was doing
        late.start()
        assert run.stdout is not None
        lines = [run.stdout.readline() for _ in range(2)]
        said = (tmp_path / "errors").read_text()
        assert {line.split("waiting")[0] for line in lines} == {"", "[rank 1] "}, (lines, said)
        pids = [int(line.split()[-1]) for line in lines]
        run.send_signal(number)
        status = run.wait()
        late.cancel()
    said = (tmp_path / "errors").read_text()
    assert status == (-number if number == signal.SIGKILL else 128 + number), said
    until = time.monotonic() + 20
    while any(_is_running(pid) for pid in pids):
        assert time.monotonic() < until, pids
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


MODULE = """
import os, sys
print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"], sys.argv[1:], __name__)
"""


@needs_ranks
def test_launcher__modules_and_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options behind the program are the program's."""
    (tmp_path / "module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    done = _run("--ranks", 2, "-m", "module", "--ranks", 5)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "0 2 0 ['--ranks', '5'] __main__",
        "[rank 1] 1 2 1 ['--ranks', '5'] __main__",
    ]


def _environment(process: int, processes: int, place: int = 0, neighbours: int = 1) -> dict[str, str]:
    numbers = {"RANK": process, "WORLD_SIZE": processes, "LOCAL_RANK": place, "LOCAL_WORLD_SIZE": neighbours}
    return {name: str(number) for name, number in numbers.items()}


def test_share__every_rank_has_one_place() -> None:
    for world in range(1, 12):
        for processes in range(1, world + 1):
            shares = [share_of(world, _environment(i, processes)) for i in range(processes)]
            assert [rank for share in shares for rank in share.mine] == list(range(world))
            assert {len(share.mine) for share in shares} <= {world // processes, -(-world // processes)}
    # Five processes on machines of two and three: ranks 0 to 2 and 3 to 7.
    shares = [share_of(8, _environment(i, 5, *((i, 2) if i < 2 else (i - 2, 3)))) for i in range(5)]
    assert [share.local for share in shares] == [range(3)] * 2 + [range(3, 8)] * 3
    assert shares[3].environment(5) == {
        "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "5",
        "ROLE_RANK": "5", "ROLE_WORLD_SIZE": "8", "REPDL_RANKS": "8",
    }  # fmt: skip
    alone = share_of(3, {})
    assert alone.is_alone and alone.mine == alone.local == range(3)


def test_share__what_it_does_not_take() -> None:
    for world, environment, says in (
        (2, _environment(0, 3), "2 ranks on 3 processes of the launcher, expected at least one for each"),
        (2, {"RANK": "0"}, "the variable WORLD_SIZE is not set, expected a number"),
        (2, {"WORLD_SIZE": "2", "RANK": "first"}, "the variable RANK is 'first', expected a number"),
        (4, _environment(0, 2, 1, 2), "RANK 0, WORLD_SIZE 2, LOCAL_RANK 1 and LOCAL_WORLD_SIZE 2, expected those of"),
        (4, share_of(3, {}).environment(2), "the environment of rank 2 of `repdl run --ranks 3`, expected that of a"),
    ):
        with pytest.raises(NotBegunError, match=re.escape(says)):
            share_of(world, environment)


def test_run__ranks_that_are_no_number(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("0", "-1", "two", "2.5"):
        with pytest.raises(SystemExit, match="2"):
            main(["run", f"--ranks={text}", "train.py"])
        assert f"argument --ranks: {text!r}, expected 1 or more" in capsys.readouterr().err
    assert main(["run", "--quiet", "train.py"]) == 2
    assert "--quiet is for ranks other than 0, expected --ranks beside it" in capsys.readouterr().err
    for name, value in _environment(0, 3).items():
        monkeypatch.setenv(name, value)
    assert main(["run", "--ranks", "2", "train.py"]) == 2
    assert "repdl run: --ranks: 2 ranks on 3 processes" in capsys.readouterr().err
