"""Programs in processes of their own, which begin with torch already imported: two thirds of what a start takes.

One process imports torch, and nothing of RepDL; each program runs in a fork of it, in its own folder, with its own
environment, modules and exit handlers. It ends behind these: what an interpreter takes down at its end stays.
"""

from __future__ import annotations

import atexit
import io
import json
import multiprocessing.process
import os
import runpy
import subprocess
import sys
import threading
import traceback
import types
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

READ_BEFORE = "GLIBC_", "GOMP_", "KMP_", "LD_", "MALLOC_", "MKL_", "OMP_", "PYTHON", "PYTORCH_", "TORCH_"
"""Variables that begin so may have been read by the time that torch is imported."""


def python(
    *command: object, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run([sys.executable, *command])` captures of a program, as text.

    Args:
        command: "-c" and code, "-m" and a module, or a file; then arguments.
        environment: of the program; None: that of this process.
        cwd: its folder; None: that of this process.
    """
    arguments = [str(part) for part in command]
    environment = dict(os.environ) if environment is None else environment
    if not sys.platform.startswith("linux"):
        whole = [sys.executable, *arguments]
        return subprocess.run(whole, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    read = {name: value for name, value in environment.items() if name.startswith(READ_BEFORE)}
    read.pop("PYTHONPATH", None)
    with TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        request = {"command": arguments, "environment": environment, "cwd": str(cwd or os.getcwd())}
        status = _server(tuple(sorted(read.items()))).ask({**request, "out": str(out), "err": str(err)})
        return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())


class _Server:
    """The process that has torch; it ends with this one, whose end of the pipe closes."""

    def __init__(self, read: dict[str, str]) -> None:
        # Without PYTHONPATH, which each program has its own of.
        others = {k: value for k, value in os.environ.items() if not k.startswith((*READ_BEFORE, "REPDL_"))}
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=others | read, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lock = threading.Lock()
        atexit.register(self._process.communicate)

    def ask(self, request: dict[str, Any]) -> int:
        """The exit status of a program."""
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None and answers is not None
        with self._lock:
            to.write(json.dumps(request) + "\n")
            to.flush()
            status = answers.readline()
        if not status:
            _server.cache_clear()
            raise RuntimeError("processes.python: the process that has torch has ended")
        return int(status)


@cache
def _server(read: tuple[tuple[str, str], ...]) -> _Server:
    return _Server(dict(read))


def _serve() -> None:
    sys.path.pop(0)  # the folder of this file
    import torch  # noqa: F401

    with os.fdopen(os.dup(1), "w") as answers:
        for line in sys.stdin:
            child = os.fork()
            if child == 0:
                answers.close()
                _run(**json.loads(line))
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _run(command: list[str], environment: dict[str, str], cwd: str, out: str, err: str) -> None:
    """Be the program; never returns."""
    os.chdir(cwd)
    multiprocessing.process.ORIGINAL_DIR = cwd  # type: ignore[attr-defined]
    os.environ.clear()
    os.environ.update(environment)
    for path, descriptor in ((os.devnull, 0), (out, 1), (err, 2)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    added = [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:0] = added
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    status = 1
    try:
        _execute(command, main)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if not isinstance(ended.code, int | None):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, io.UnsupportedOperation):
            stream.flush()
    os._exit(status)


def _execute(command: list[str], main: types.ModuleType) -> None:
    kind, *rest = command
    if kind == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path.insert(0, str(Path(kind).resolve().parent))
        sys.argv = command
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    _serve()
