"""What CMake builds for a target, and what refuses to be built: never a weaker promise."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from repdl_cpu import _machine

PACKAGE = Path(__file__).parents[1]
CXX = os.environ.get("CXX", "c++")
pytestmark = pytest.mark.skipif(not (PACKAGE / "native").is_dir(), reason="no source tree of repdl-cpu here")


def configure(folder: Path, code: str, *options: str) -> str:
    """What a CMake project says that has this code."""
    if not shutil.which("cmake"):
        pytest.skip("needs cmake")
    folder.joinpath("CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.20)\nproject(p CXX)\n{code}\n")
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build"), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode == 0) == ("levels:" in run.stdout), run.stdout + run.stderr
    return " ".join((run.stdout + run.stderr).split())


ISAS = f'include("{PACKAGE}/cmake/isas.cmake")\nrepdl_isas(isas)\nmessage(STATUS "levels: ${{isas}}.")'


def test_build__isas_of_this_processor_and_the_baseline(tmp_path: Path) -> None:
    best = _machine.supported_isas()[0]
    assert f"levels: {'baseline' if best == 'baseline' else f'baseline;{best}'}." in configure(tmp_path, ISAS)


def test_build__all_isas(tmp_path: Path) -> None:
    x86 = platform.machine() in ("x86_64", "AMD64")
    expected = f"levels: {'baseline;avx2;avx512' if x86 else 'baseline'}."
    assert expected in configure(tmp_path, ISAS, "-DREPDL_CPU_ISAS=all")
    (tmp_path / "cross").mkdir()
    assert expected in configure(tmp_path / "cross", ISAS, "-DCMAKE_SYSTEM_NAME=Linux")


def test_build__isas_are_the_targets_not_the_hosts(tmp_path: Path) -> None:
    # As with -arch arm64 on an Intel Mac: the host's processor is what it was.
    for wanted in ("all", "native", "baseline;native"):
        assert "levels: baseline." in configure(
            tmp_path, ISAS, "-DCMAKE_CXX_FLAGS=-U__x86_64__", f"-DREPDL_CPU_ISAS={wanted}"
        )


@pytest.mark.parametrize("target", ["aarch64", "riscv64", "s390x"])
def test_build__isas_of_a_cross_compiler(target: str, tmp_path: Path) -> None:
    compiler = shutil.which(f"{target}-linux-gnu-g++")
    if not compiler:
        pytest.skip(f"needs {target}-linux-gnu-g++")
    assert "levels: baseline." in configure(tmp_path, ISAS, f"-DCMAKE_CXX_COMPILER={compiler}")


def test_build__isas_that_are_asked_for(tmp_path: Path) -> None:
    assert "levels: baseline." in configure(tmp_path, ISAS, "-DREPDL_CPU_ISAS=baseline")
    (tmp_path / "unknown").mkdir()
    said = configure(tmp_path / "unknown", ISAS, "-DREPDL_CPU_ISAS=baseline;neon")
    assert "REPDL_CPU_ISAS is baseline;neon, expected some of baseline" in said
    (tmp_path / "none").mkdir()
    assert "REPDL_CPU_ISAS is empty" in configure(tmp_path / "none", ISAS, "-DREPDL_CPU_ISAS=")


def test_build__the_best_isa_of_this_processor(tmp_path: Path) -> None:
    for _ in range(2):  # a build directory is configured again
        assert f"levels: {_machine.supported_isas()[0]}." in configure(tmp_path, ISAS, "-DREPDL_CPU_ISAS=native")
    (tmp_path / "other").mkdir()
    broken = ISAS.replace("\n", '\nset(CMAKE_CXX_FLAGS "-include none.hpp")\n', 1)
    said = configure(tmp_path / "other", broken, "-DREPDL_CPU_ISAS=native", "-DREPDL_TARGET_IS_X86_64=ON")
    assert "can't be found out; name levels, or all" in said


def test_build__universal_binaries_are_refused(tmp_path: Path) -> None:
    said = configure(tmp_path, 'set(CMAKE_OSX_ARCHITECTURES "x86_64;arm64")\n' + ISAS)
    assert "CMAKE_OSX_ARCHITECTURES is x86_64;arm64, expected one" in said


def test_build__windows_is_refused(tmp_path: Path) -> None:
    assert "Windows is not supported" in configure(tmp_path, f"set(WIN32 TRUE)\n{ISAS}")


def test_build__versions_of_the_contract(tmp_path: Path) -> None:
    find = f'PATHS "{PACKAGE}/contract/cmake" NO_DEFAULT_PATH'
    code = f"""
foreach(version 0.1 0.1.0 0.2 1.0 0.1.99)
  find_package(repdl_contract ${{version}} CONFIG QUIET {find})
  list(APPEND found ${{repdl_contract_FOUND}})
  unset(repdl_contract_DIR CACHE)
endforeach()
message(STATUS "levels: ${{found}}.")"""
    assert "levels: 1;1;0;0;0." in configure(tmp_path, code)


@pytest.mark.parametrize(("compiler", "frontend"), [("MSVC", "MSVC"), ("Clang", "MSVC"), ("IntelLLVM", "GNU")])
def test_build__compilers_with_other_flags_are_refused(compiler: str, frontend: str, tmp_path: Path) -> None:
    code = f"""
set(CMAKE_CXX_COMPILER_ID {compiler})
set(CMAKE_CXX_COMPILER_FRONTEND_VARIANT {frontend})
find_package(repdl_contract CONFIG REQUIRED PATHS "{PACKAGE}/contract/cmake" NO_DEFAULT_PATH)
message(STATUS "levels:")"""
    assert f"The C++ compiler is {compiler} {frontend}, expected GCC or Clang" in configure(tmp_path, code)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("-D_WIN32", "Windows is not supported"),
        ("-U__GNUC__", "this compiler is unknown"),
        ("-ffast-math", "-ffast-math changes results"),
        ("-D__mips__", "neither is supported"),
        ("-mfpmath=387", "computes float in a wider type"),
    ],
)
def test_build__environments_that_break_the_promise(option: str, message: str) -> None:
    if option.startswith("-mfpmath") and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("an option of x86 compilers")
    guarded, includes = PACKAGE / "native/base/environment.hpp", f"-I{PACKAGE / 'contract/include'}"
    command = [CXX, "-std=c++17", "-fsyntax-only", includes, "-x", "c++", str(guarded)]
    plain = subprocess.run(command, capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stderr
    refused = subprocess.run([*command, option], capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and message in refused.stderr, refused.stderr


@pytest.mark.parametrize("compiler", ["clang++", "aarch64-linux-gnu-g++", "riscv64-linux-gnu-g++"])
def test_build__no_warnings(compiler: str, tmp_path: Path) -> None:
    """All kernels; what Python needs of them is apart from them."""
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    sources = sorted(path for path in PACKAGE.glob("native/*/*.cpp") if path.name not in ("machine.cpp", "module.cpp"))
    everything = tmp_path / "everything.cpp"
    everything.write_text("".join(f'#include "{source}"\n' for source in sources))
    includes = [f"-I{folder}" for folder in (PACKAGE / "native", PACKAGE / "contract/include")]
    options = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    run = subprocess.run([compiler, *options, *includes, str(everything)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
