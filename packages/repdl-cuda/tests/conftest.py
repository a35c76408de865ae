"""Programs of tests/native and of kernels, compiled against the emulation: `build`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
WARNINGS = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"]
FLAGS = ["-std=c++17", "-O1", "-g", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-DREPDL_EMULATED", *WARNINGS]
INCLUDES = ["emulation", "native", "contract/include", "tests/native"]

Build = Callable[..., Path]


def compiler(*arguments: str | Path) -> None:
    done = subprocess.run(
        [os.environ.get("CXX", "c++"), *arguments], cwd=PACKAGE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build(*sources, sanitizer="", first=()): a program; `first` are folders to find headers in before all others."""
    folder = tmp_path_factory.mktemp("emulated")

    @cache
    def runtime(sanitizer: str) -> Path:
        # Not itself watched by ThreadSanitizer: emulation/sanitizers.hpp.
        how = {"": [], "address": ["-fsanitize=address"], "thread": ["-DREPDL_THREAD_SANITIZER"]}[sanitizer]
        made = folder / f"runtime_{sanitizer}.o"
        compiler(*FLAGS, *how, "-Iemulation", "-c", "emulation/runtime.cpp", "-o", made)
        return made

    @cache
    def program(sources: Sequence[Path], sanitizer: str, first: Sequence[Path]) -> Path:
        how = [f"-fsanitize={sanitizer}"] if sanitizer else []
        made = folder / f"program_{len(list(folder.iterdir()))}"
        includes = [f"-I{include}" for include in (INCLUDES[0], *first, *INCLUDES[1:])]
        compiler(*FLAGS, *how, *includes, "-x", "c++", *sources, "-x", "none", runtime(sanitizer), "-o", made)
        return made

    return lambda *sources, sanitizer="", first=(): program(sources, sanitizer, tuple(first))
