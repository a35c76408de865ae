"""The files of checkpoints: whatever happens while one is written, the one before it is there and whole."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from repdl import checkpoint
from repdl.checkpoint import atomic, format
from repdl.errors import CheckpointError
from repdl.tensors.raw import raw_bytes
from repdl.testing import processes

KILLED = Path(__file__).with_name("killed_while_saving.py")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != atomic.LOCK}


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.nightly)])
def test_files__kill_9_while_it_saves(kills: int, tmp_path: Path) -> None:
    done = processes.python(KILLED, tmp_path, kills, "36")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[:2] == [str(kills), "kills,"] and int(words[2]) > 0, (
        f"no kill met a file that was written: {done.stdout}"
    )


def test_files__a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel says it: a limit of the size of files ends a write in the middle."""
    checkpoint.save(tmp_path / "step-1", extra=torch.zeros(1000))
    before = files(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))  # Python ignores SIGXFSZ
    try:
        for name in ("step-1", "step-2"):
            with pytest.raises(CheckpointError, match="can't be written: File too large; checkpoints that were there"):
                checkpoint.save(tmp_path / name, extra=torch.ones(10**6), keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(tmp_path) == before

    def full(*arguments: Any) -> str:
        arguments[0].write(b"x" * 100)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(format, "write", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        checkpoint.save(tmp_path / "step-1", extra=1)
    assert files(tmp_path) == before


def test_files__a_folder_that_is_read_only() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        checkpoint.save(folder / "step-1", extra=1)
        before, user = files(folder), os.geteuid()
        folder.chmod(0o555)
        (folder / atomic.LOCK).chmod(0o444)
        if user == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(CheckpointError, match="can't be written: Permission denied"):
                checkpoint.save(folder / "step-1", extra=2)
        finally:
            os.seteuid(user)
        assert files(folder) == before
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_files__two_writers(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "step-1", extra=1)
    before = files(tmp_path)
    with atomic.locked(tmp_path), pytest.raises(CheckpointError, match="another process saves into"):
        checkpoint.save(tmp_path / "step-2", extra=2)
    assert files(tmp_path) == before
    code = (
        "import sys, pathlib; from repdl.checkpoint import atomic\n"
        "with atomic.locked(pathlib.Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "locked\n"
        with pytest.raises(CheckpointError, match="another process saves into"):
            checkpoint.save(tmp_path / "step-1", extra=2)
        other.kill()
    assert files(tmp_path) == before
    checkpoint.save(tmp_path / "step-1", extra=2)  # one that was killed lets go


def test_files__writes_flushes_renames_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def flush(descriptor: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("rename"), rename(*paths)))
    checkpoint.save(tmp_path / "c", extra=1)
    assert done == ["file", "rename", "folder"]


def test_files__what_was_left_unfinished_goes_away(tmp_path: Path) -> None:
    (tmp_path / ".step-1.77.repdl-unfinished").write_bytes(b"half")
    (tmp_path / "mine").write_text("stays")
    checkpoint.save(tmp_path / "step-1", extra=1)
    assert sorted(files(tmp_path)) == ["mine", "step-1"]
    assert checkpoint.latest(tmp_path) == tmp_path / "step-1"


def test_files__latest_and_keep(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path) is None
    (tmp_path / "step-7").write_text("of another program")
    checkpoint.save(tmp_path / "best", extra=0)
    for step in (8, 9, 10, 11):
        checkpoint.save(tmp_path / f"step-{step}", extra=step, keep=2)
    assert sorted(files(tmp_path)) == ["best", "step-10", "step-11", "step-7"]
    os.utime(tmp_path / "step-10")  # copies have other times
    assert checkpoint.latest(tmp_path) == tmp_path / "step-11"
    for name, data in (("step-11", b"x"), ("step-10", None)):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-1] if data else whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.warns(UserWarning, match="passed over"):
        assert checkpoint.latest(tmp_path) == tmp_path / "best"
    for keep, message in ((0, "keep is 0"), (True, "keep is True"), (2, "has no number")):
        with pytest.raises(CheckpointError, match=message):
            checkpoint.save(tmp_path / "best", keep=keep)
    with pytest.raises(CheckpointError, match="in a folder that does not exist"):
        checkpoint.save(tmp_path / "nowhere" / "c")
    with pytest.raises(CheckpointError, match="can't be read: No such file"):
        checkpoint.load(tmp_path / "nowhere")


def test_files__in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is that of the call, whatever the training does meanwhile."""
    model = torch.nn.Linear(2, 2)
    begin, write = threading.Event(), format.write

    def later(*arguments: Any) -> str:
        begin.wait(10)
        return write(*arguments)

    monkeypatch.setattr(format, "write", later)
    saving = checkpoint.async_save(tmp_path / "a", model=model, extra="a")
    now = {name: t.clone() for name, t in model.state_dict().items()}
    with torch.no_grad():
        model.weight.zero_()
    assert not saving.done() and not (tmp_path / "a").exists()
    begin.set()
    digest = saving.wait()
    assert saving.done() and checkpoint.load(tmp_path / "a", model=model).digest == digest
    assert all(torch.equal(model.state_dict()[name], t) for name, t in now.items())
    second = checkpoint.async_save(tmp_path / "b", model=model)
    checkpoint.save(tmp_path / "c", model=model)
    assert second.done() and checkpoint.load(tmp_path / "c", model=model).previous == second.wait()


def test_files__an_error_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format, "write", lambda *arguments: 1 / 0)
    saving = checkpoint.async_save(tmp_path / "a", extra=1)
    with pytest.raises(ZeroDivisionError):
        saving.wait()
    monkeypatch.undo()
    with atomic.locked(tmp_path):
        checkpoint.async_save(tmp_path / "a", extra=1)._thread.join()  # type: ignore[union-attr]
    with pytest.raises(CheckpointError, match="another process"):  # nobody has waited: it is not lost
        checkpoint.save(tmp_path / "b", extra=1)
    checkpoint.save(tmp_path / "b", extra=1)


def test_files__a_progress_bar_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (False, True):
        checkpoint.save(tmp_path / "c", extra=torch.zeros(10**5), progress=shown)
        checkpoint.load(tmp_path / "c", progress=shown)
        said = capsys.readouterr().err
        assert ("save c: 100%" in said and "load c: 100%" in said) if shown else not said, said


def test_files__the_chain(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    first = checkpoint.save(tmp_path / "1", model=model)
    with torch.no_grad():
        model.weight += 1
    second = checkpoint.save(tmp_path / "2", model=model)
    other = torch.nn.Linear(2, 2)
    assert checkpoint.load(tmp_path / "2", model=other).previous == first
    checkpoint.save(tmp_path / "3", model=other)
    loaded = checkpoint.load(tmp_path / "3", model=model)
    assert loaded.previous == second == loaded.digest, "nothing was trained between"
    checkpoint.save(tmp_path / "4", model=torch.nn.Linear(2, 2))
    assert checkpoint.load(tmp_path / "4", model=model).previous is None


def test_files__a_program_ends_when_its_checkpoint_is_there(tmp_path: Path) -> None:
    code = (
        "import sys, torch; from repdl import checkpoint\n"
        "checkpoint.async_save(sys.argv[1], extra=torch.ones(2 * 10**7)); print('end')"
    )
    for name, error in (("c", ""), (atomic.LOCK, "Is a directory")):
        if error:
            (tmp_path / "d" / name).mkdir(parents=True)
        target = tmp_path / "d" / "c" if error else tmp_path / name
        done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=True)
        assert done.stdout == "end\n" and (error in done.stderr if error else not done.stderr), done.stderr
    assert checkpoint.load(tmp_path / "c").extra.sum() == 2 * 10**7


def test_files__a_process_that_is_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys, time, pathlib; from repdl.checkpoint import atomic\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "with atomic.locked(folder):\n"
        "    if not os.fork(): time.sleep(5), os._exit(0)\n"
        "with atomic.locked(folder): print('again')"
    )
    done = processes.python("-c", code, tmp_path)
    assert done.stdout == "again\n", done.stderr


def test_files__parts_that_were_exchanged(tmp_path: Path) -> None:
    """Two tensors of one shape, and the bytes of another checkpoint below the header of this one."""
    a, b = torch.arange(4.0), torch.arange(4.0) + 9
    checkpoint.save(tmp_path / "c", extra={"a": a, "b": b})
    data, one, other = (tmp_path / "c").read_bytes(), raw_bytes(a).tobytes(), raw_bytes(b).tobytes()
    assert data.count(one) == data.count(other) == 1
    (tmp_path / "d").write_bytes(data.replace(one, b"?" * 16).replace(other, one).replace(b"?" * 16, other))
    with pytest.raises(CheckpointError, match="the bytes of extra/a have another digest"):
        checkpoint.load(tmp_path / "d")
    (tmp_path / "d").write_bytes(data.replace(b"extra/a", b"extra/x").replace(b"extra/b", b"extra/a"))
    with pytest.raises(CheckpointError, match="its checksum differs"):
        checkpoint.load(tmp_path / "d")
