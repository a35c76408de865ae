"""Threads, ours and torch's, and the environment of kernels, in C++ (native/pool.cpp) and from Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
NATIVE = Path(os.environ.get("REPDL_CPU_TEST_NATIVE", PACKAGE / "native"))
INCLUDES = [f"-I{NATIVE}", f"-I{NATIVE / 'include'}", f"-I{PACKAGE / 'contract/include'}"]
"""Of edited sources the kit lies beside them."""
pytestmark = pytest.mark.skipif(not NATIVE.is_dir(), reason="no source tree of repdl-cpu here")

CXX = os.environ.get("CXX", "c++")
WITHOUT_FORK = ["environment", "nested", "exceptions", "concurrent"]
"""For what knows nothing of forks with threads, or reserves memory of its own."""
CHECKS = [*WITHOUT_FORK, "forks", "limited", "limited_later"]
OF_A_TEAM = {**dict.fromkeys([*WITHOUT_FORK, "forks", "limited"], 8), "team": 4}
"""Check -> the size of the runtime's team, OMP_NUM_THREADS."""


def build(compiler: str, program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The checks as one program."""
    sources = [str(Path(__file__).with_name("native") / "pool.cpp"), str(NATIVE / "base/threads.cpp")]
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *INCLUDES, *options]
    command = [compiler, *flags, *sources, "-o", str(program), "-ldl"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def assert_passes(command: list[str], **environment: str) -> None:
    """A program that ends well."""
    env = os.environ | environment
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_pool__checks(tmp_path: Path) -> None:
    assert shutil.which(CXX), "needs a C++ compiler: c++, or $CXX"
    made = build(CXX, tmp_path / "pool")
    assert made.returncode == 0, made.stderr
    for check in CHECKS if sys.platform == "linux" else WITHOUT_FORK:
        assert_passes([str(tmp_path / "pool"), check])


def torchs_runtime() -> str:
    """The file of the OpenMP runtime that torch has loaded, or nothing."""
    maps = Path("/proc/self/maps")
    files = {line.split()[-1] for line in maps.read_text().splitlines() if "/" in line} if maps.is_file() else set()
    return next((file for file in files if re.search(r"lib(gomp|iomp5|omp)\b[^/]*$", file)), "")


@pytest.mark.skipif(sys.platform != "linux", reason="torch's team is used on Linux only")
def test_pool__checks_on_a_team(tmp_path: Path) -> None:
    """The same on the team of an OpenMP runtime, the compiler's and torch's, which a library in the place of
    torch has loaded."""
    made = build(CXX, tmp_path / "pool")
    assert made.returncode == 0, made.stderr
    torch = [CXX, "-fopenmp", "-shared", "-fPIC", str(Path(__file__).with_name("native") / "torch.cpp")]
    if subprocess.run([*torch, "-o", str(tmp_path / "torch.so")], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{CXX} has no OpenMP here")
    for runtime in {"", torchs_runtime()}:
        for check, size in OF_A_TEAM.items():
            command = [str(tmp_path / "pool"), "--torch", str(tmp_path / "torch.so"), check]
            assert_passes(command, OMP_NUM_THREADS=str(size), LD_PRELOAD=runtime)
    fewer = [str(tmp_path / "pool"), "--torch", str(tmp_path / "torch.so"), *WITHOUT_FORK]
    assert_passes(fewer, OMP_NUM_THREADS="8", OMP_THREAD_LIMIT="2")


def test_pool__thread_sanitizer(tmp_path: Path) -> None:
    made = build(CXX, tmp_path / "pool", "-g", "-fsanitize=thread")
    if made.returncode != 0 and "tsan" in made.stderr:
        pytest.skip(f"{CXX} has no thread sanitizer here")
    assert made.returncode == 0, made.stderr
    assert_passes([str(tmp_path / "pool"), *WITHOUT_FORK], TSAN_OPTIONS="halt_on_error=1")


@pytest.mark.parametrize("target", ["aarch64", "riscv64", "s390x"])
def test_pool__other_processors(target: str, tmp_path: Path) -> None:
    """Emulated, in other rounding modes: targets whose environment is set in other ways."""
    compiler = f"{target}-linux-gnu-g++"
    emulator = shutil.which(f"qemu-{target}-static") or shutil.which(f"qemu-{target}")
    if not shutil.which(compiler) or not emulator:
        pytest.skip(f"needs {compiler} and qemu-{target}")
    made = build(compiler, tmp_path / "pool", "-static")
    assert made.returncode == 0, made.stderr
    assert_passes([emulator, str(tmp_path / "pool"), *WITHOUT_FORK])


LIMITED = """
import os, resource, torch, repdl
from repdl.testing import uniform

def threads():
    return len(os.listdir("/proc/self/task"))

a, b = uniform(1, 300, 200), uniform(2, 200, 150)
x = uniform(3, 400, 500)
def digest():
    return repdl.digest([repdl.ops.mm(a, b), repdl.ops.softmax(x, 1), repdl.ops.sum(x)])

torch.set_num_threads(1)
repdl.set_num_threads(1)
right = digest()
repdl.set_num_threads(2)
assert digest() == right
before = threads()
torch.set_num_threads(TORCHS)
plain = resource.getrlimit(resource.RLIMIT_AS)
pages = int(open("/proc/self/statm").read().split()[0])
# Room for the results, not for the stack of a thread.
resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGESIZE") + (32 << 20), plain[1]))
repdl.set_num_threads(7)
within = [digest() for _ in range(5)]
started = threads() - before
resource.setrlimit(resource.RLIMIT_AS, plain)
assert within == [right] * 5, "other bits"
assert started == 0, f"{started} threads started: nothing was tested"
team = TORCHS > 1 and repdl.backends()["cpu"].details["team"] != "repdl-cpu"
later = 6 if team else 5  # of a team that nobody has used; beside one of ours
assert digest() == right and threads() == before + later, "the threads were not started later"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and /proc are Linux's")
@pytest.mark.parametrize("torchs", [1, 7])
def test_pool__that_cannot_be_started(torchs: int) -> None:
    """As under `ulimit -v`: fewer threads, the same bits, no error; later calls start them."""
    resource = pytest.importorskip("resource")
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = 256 << 20 if hard == resource.RLIM_INFINITY else min(hard, 256 << 20)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_STACK, ({stack}, {hard})); "
    program = LIMITED.replace("TORCHS", str(torchs))
    child = f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {program!r}])"
    assert_passes([sys.executable, "-c", limit + child])
