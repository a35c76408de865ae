"""The call path in C (repdl/python/) under AddressSanitizer: a module of it and a few kernels, and tests of both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from repdl.callcache import c_extension

TESTS = Path(__file__).parent
INCLUDE = TESTS.parent / "contract/include"
CXX = os.environ.get("CXX", "c++")
ORDINARY = ["test_kit.py", "test_kit_leaks.py"]
NIGHTLY = [
    *(path.name for path in sorted(TESTS.glob("test_replay*.py"))),
    "../../repdl-core/tests/enable/test_enable_shortcuts.py",
]
pytestmark = [
    pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sanitizer's library is preloaded as Linux does it"),
    pytest.mark.skipif(not INCLUDE.is_dir(), reason="no source tree of repdl-cpu here"),
]


def library(name: str) -> Path:
    """Of the compiler."""
    found = subprocess.run([CXX, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip()).resolve()


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The module, and what is preloaded for it."""
    assert shutil.which(CXX), "needs a C++ compiler: c++, or $CXX"
    libraries = [library(name) for name in ("libasan.so", "libstdc++.so.6")]  # the second: what throws is found
    if not all(path.is_file() for path in libraries):
        pytest.skip(f"{CXX} has no address sanitizer here")
    made = tmp_path_factory.mktemp("kit") / "kit.so"
    flags = ["-std=c++17", "-O1", "-g1", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-fsanitize=address"]
    includes = [f"-I{INCLUDE}", f"-isystem{sysconfig.get_paths()['include']}"]
    command = [CXX, *flags, *includes, str(TESTS / "native/kit.cpp"), "-o", str(made), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return made, " ".join(map(str, libraries))


def run(sanitized: tuple[Path, str], files: list[str]) -> None:
    made, preloaded = sanitized
    environment = {
        **os.environ,
        "LD_PRELOAD": preloaded, "PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "1",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # what is kept is counted by test_kit_leaks.py
    }  # fmt: skip
    tests = [str(TESTS / file) for file in files]
    command = [
        sys.executable,
        str(TESTS / "sanitized.py"),
        str(made),
        *tests,
        "-p",
        "no:cacheprovider",
        "-x",
        "--capture=sys",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert "ERROR: AddressSanitizer: heap-buffer-overflow" in done.stderr, "the planted one"
    assert done.stderr.count("ERROR: AddressSanitizer") == 1, done.stderr[-6000:]


@pytest.mark.nightly
def test_kit__sanitized(sanitized: tuple[Path, str]) -> None:
    run(sanitized, ORDINARY)


@pytest.mark.nightly
def test_kit__sanitized_replay(sanitized: tuple[Path, str]) -> None:
    run(sanitized, NIGHTLY)
