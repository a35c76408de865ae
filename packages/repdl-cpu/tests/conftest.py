"""Kernels compiled by the tests themselves, `build`, and programs over their headers, `program`.

And kernels under test in place of the installed ones.

With REPDL_CPU_TEST_MODULE, the path of an extension module, its functions replace those of the best
ISA's module; what it lacks stays the installed one's. test_planted.py runs parts of the suite so.
With REPDL_CPU_TEST_ISAS, names with commas, the suite knows of no other ISAs: tools/dev.py builds one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from torch.utils.cpp_extension import include_paths

import repdl_cpu

if "REPDL_CPU_TEST_ISAS" in os.environ:
    built = os.environ["REPDL_CPU_TEST_ISAS"].split(",")
    repdl_cpu.supported_isas = repdl_cpu.isa.supported_isas = lambda: list(built)

NATIVE = Path(__file__).parents[1] / "native"
ISA = repdl_cpu.get_isa()
FLAGS = [
    *("-std=c++17", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden"),
    *("-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math"),
    *{"avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"], "avx2": ["-march=x86-64-v3"]}.get(ISA, []),
]
"""Those of CMakeLists.txt, without its optimisation: bits do not depend on that, and compiling takes a third."""


def load(path: Path) -> Any:
    """An extension module that this file holds, beside the installed one."""
    spec = spec_from_file_location(f"{path.parent.name}._{ISA}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Replaced:
    """The kernels of one module, and of another one what it lacks."""

    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._second = first, second

    def __getattr__(self, name: str) -> Any:
        if name == "kernels":
            return {**self._second.kernels, **self._first.kernels}
        return getattr(self._second, name)


def replace_module() -> None:
    path = os.environ.get("REPDL_CPU_TEST_MODULE")
    if path:
        name = f"repdl_cpu._{ISA}"
        sys.modules[name] = Replaced(load(Path(path)), sys.modules[name])  # type: ignore[assignment]
        repdl_cpu.isa._Current.module = sys.modules[name]


replace_module()


def compiled(folder: Path, sources: Path, units: Iterable[str], options: Sequence[str] = ()) -> Path:
    """A module of the kernels in some translation units, compiled as one."""
    text = f"#define REPDL_MODULE _{ISA}\n"
    text += "".join(f'#include "{next(sources.rglob(f"{unit}.cpp"))}"\n' for unit in (*units, "module"))
    main, made = folder / "module.cpp", folder / f"_{ISA}.so"
    main.write_text(text)
    includes = [f"-I{sources}", f"-I{sources / 'include'}", f"-I{NATIVE.parent / 'contract/include'}"]
    includes += [f"-isystem{path}" for path in (*include_paths(), sysconfig.get_paths()["include"])]
    done = subprocess.run(
        [os.environ.get("CXX", "c++"), *FLAGS, *options, *includes, str(main), "-o", str(made)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return made


@pytest.fixture(scope="session")
def build() -> Callable[..., Path]:
    """build(folder, sources, units, options=()): an extension module, compiled."""
    return compiled


MARCH = {"avx2": ["-march=x86-64-v3"], "avx512": ["-march=x86-64-v4"]}


def program_of(folder: Path, name: str, isa: str, *options: str) -> Path:
    """native/NAME.cpp of the tests, compiled for an ISA; the sources may be those with a planted mistake."""
    sources = Path(os.environ.get("REPDL_CPU_TEST_NATIVE", NATIVE))
    if not sources.is_dir():
        pytest.skip("no source tree of repdl-cpu here")
    source, made = Path(__file__).parent / f"native/{name}.cpp", folder / isa
    includes = [f"-I{sources}", f"-I{sources / 'include'}", f"-I{NATIVE.parent / 'contract/include'}"]
    flags = ["-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", *MARCH.get(isa, [])]
    command = [os.environ.get("CXX", "c++"), *flags, *options, *includes, str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="session")
def program() -> Callable[..., Path]:
    """program(folder, name, isa, *options): native/NAME.cpp of the tests, compiled for an ISA."""
    return program_of


@pytest.fixture(scope="session")
def load_module() -> Callable[[Path], Any]:
    return load
