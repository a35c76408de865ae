"""The programs of the CUDA toolkit: those on the path, or of the PyPI packages (folder nvidia/cu13)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path


def _packages() -> list[Path]:
    """The folders of the toolkit's packages in this environment."""
    found = find_spec("nvidia")
    return [Path(place, "cu13") for place in found.submodule_search_locations or ()] if found else []


def run(*command: str | Path) -> str:
    """What a program of the toolkit prints.

    Raises:
        FileNotFoundError: if it is not installed.
        RuntimeError: if it fails.
    """
    folders = _packages()
    path = os.pathsep.join([os.environ.get("PATH", ""), *(str(folder / "bin") for folder in folders)])
    program = shutil.which(str(command[0]), path=path)
    if program is None:
        raise FileNotFoundError(f"audit: no {command[0]}; install a CUDA toolkit or nvidia-cuda-{command[0]} from PyPI")
    # cuobjdump looks for nvdisasm on the path; the nvcc of the packages does not find its own libraries.
    libraries = os.pathsep.join([*(str(folder / "lib") for folder in folders), os.environ.get("LIBRARY_PATH", "")])
    environment = os.environ | {"PATH": path, "LIBRARY_PATH": libraries}
    done = subprocess.run([program, *command[1:]], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"audit: {command[0]} failed: {done.stdout}{done.stderr}")
    return done.stdout


def ptx_of(source: Path, *flags: str, includes: Sequence[Path] = ()) -> str:
    """The PTX that nvcc makes of a source file, with the lines of the source in it."""
    paths = [f"-I{include}" for include in includes]
    return run("nvcc", "-std=c++17", "-arch=compute_90", "-lineinfo", "-ptx", "-o", "-", *flags, *paths, source)
