"""Programs of tests/native and of kernels, compiled against the emulation: `build`."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pybind11
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


@pytest.fixture(scope="session")
def build_module() -> Callable[[Path, Path, str], Path]:
    """build_module(folder, sources, unit): an extension module of the kernels of one file."""
    return compiled_module


def compiled_module(folder: Path, sources: Path, unit: str) -> Path:
    """A module of the emulated kernels of one file."""
    made, main = folder / "_emulated.so", folder / "module.cpp"
    parts = (sources / unit, sources / "base/device.cu", sources / "base/module.cpp", PACKAGE / "emulation/runtime.cpp")
    main.write_text("#define REPDL_MODULE _emulated\n" + "".join(f'#include "{part}"\n' for part in parts))
    includes = [f"-I{PACKAGE / 'emulation'}", f"-I{sources}", f"-I{PACKAGE / 'contract/include'}"]
    includes += [f"-isystem{path}" for path in (pybind11.get_include(), sysconfig.get_paths()["include"])]
    compiler(*FLAGS, "-shared", "-fPIC", "-fvisibility=hidden", *includes, main, "-o", made)
    return made


STREAM = 0x700


@pytest.fixture
def one_stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The only stream that a test may launch kernels on: a launch does not wait for those on another stream."""
    from repdl_cuda import native

    if find_spec("repdl_cuda._emulated") is None:
        yield STREAM
        return
    module, of_device = native.load("_emulated"), native.stream
    monkeypatch.setattr(native, "stream", lambda x: of_device(x) if x.is_cuda else (0, STREAM))
    module.take_streams()
    yield STREAM
    streams = {*module.take_streams()}
    assert streams <= {STREAM}, f"launches on {streams}, expected all on {STREAM}, the stream of the call"


class Replaced:
    """The kernels of one module, and of another one what it lacks."""

    def __init__(self, first: Any, second: Any) -> None:
        self._both = first, second
        self.kernels = {**second.kernels, **first.kernels}

    def take_streams(self) -> list[int]:
        return [stream for module in self._both for stream in module.take_streams()]

    def rounds(self) -> dict[str, int]:
        first, second = (module.rounds() for module in self._both)
        return {name: count + first.get(name, 0) for name, count in second.items()}


def replace_module() -> None:
    """With REPDL_CUDA_TEST_MODULE, the path of a module, its kernels replace those of the installed one."""
    if "REPDL_CUDA_TEST_MODULE" not in os.environ:
        return
    from repdl_cuda import native

    spec = spec_from_file_location("planted._emulated", os.environ["REPDL_CUDA_TEST_MODULE"])
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    native._modules["_emulated"] = Replaced(module, native.load("_emulated"))


replace_module()
