"""A program in a fork of a process that has torch begins as one that Python starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from repdl.testing import processes

SEEN = """
import atexit, os, sys
print(sys.argv, sys.path[0], __name__, sys.stdin.read(), os.environ.get("REPDL_TESTS"), os.getcwd())
print("repdl" in sys.modules)
print("an error", file=sys.stderr)
atexit.register(print, "the end")
atexit.register(sys.stderr.flush)
class Here:
    pass
assert sys.modules["__main__"].Here is Here
"""


@pytest.mark.parametrize("last", ["", "1 / 0", "sys.exit('a message')", "sys.exit(3)", "sys.exit()", "os._exit(7)"])
@pytest.mark.parametrize("how", ["-c", "-m", "file"])
def test_python__is_what_an_interpreter_does(how: str, last: str, tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN + last)
    command = {"-c": ["-c", SEEN + last], "-m": ["-m", "seen"], "file": ["seen.py"]}[how] + ["1", "-x"]
    environment = os.environ | {"REPDL_TESTS": "yes"}
    done = processes.python(*command, environment=environment, cwd=tmp_path)
    whole = [sys.executable, *command]
    wanted = subprocess.run(
        whole, stdin=subprocess.DEVNULL, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (wanted.returncode, wanted.stdout)
    assert done.stderr.splitlines()[-1] == wanted.stderr.splitlines()[-1]


def test_python__finds_what_pythonpath_says(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("number = 5")
    (tmp_path / "empty").mkdir()
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    code = "import repdl, theirs; print(theirs.number)"
    assert processes.python("-c", code, environment=environment, cwd=tmp_path / "empty").stdout == "5\n"
    assert "theirs" in processes.python("-c", code, cwd=tmp_path / "empty").stderr


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="torch has no other vectors here")
def test_python__torch_reads_the_vectors_that_it_may_use_afterwards() -> None:
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    environment = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    assert processes.python("-c", code, environment=environment).stdout == "DEFAULT\n"


def test_python__has_the_variables_that_torch_reads_when_it_is_imported() -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    assert (
        processes.python("-c", "import torch; print(torch.get_num_threads())", environment=environment).stdout == "1\n"
    )
