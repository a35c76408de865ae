"""The distributions, built once a session as an index would get them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"
BUILD = """
import sys
from importlib import import_module
backend, folder = import_module(sys.argv[1]), sys.argv[2]
backend.build_sdist(folder)
if sys.argv[3] == "wheel":
    # Without CMake a native package is its Python part and its metadata, in seconds.
    backend.build_wheel(folder, {"wheel.cmake": "false"} if "scikit" in sys.argv[1] else None)
"""


@dataclass(frozen=True)
class Built:
    """An sdist, unpacked, and the wheel that was built from it, unpacked; without native modules."""

    sdist: Path
    wheel: Path

    def metadata(self) -> str:
        (path,) = self.wheel.glob("*.dist-info/METADATA")
        return path.read_text()


def _build(source: Path, folder: Path, what: str) -> None:
    backend = "scikit_build_core.build" if (source / "CMakeLists.txt").exists() else "hatchling.build"
    command = [sys.executable, "-c", BUILD, backend, str(folder), what]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Built]:
    """Name of a distribution -> what it contains. Wheels are built from the sdist, not from the checkout."""
    result = {}
    for package in sorted(PACKAGES.iterdir()):
        folder = tmp_path_factory.mktemp(package.name)
        _build(package, folder, "sdist")
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        sdist = folder / archive.name.removesuffix(".tar.gz")
        _build(sdist, folder / "again", "wheel")
        (archive,) = (folder / "again").glob("*.whl")
        with zipfile.ZipFile(archive) as file:
            file.extractall(folder / "wheel")
        result[package.name] = Built(sdist, folder / "wheel")
    return result


@pytest.fixture(scope="session")
def site(built: Mapping[str, Built], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with repdl-core, repdl-nn and repdl-optim side by side, as pip installs them."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("repdl-core", "repdl-nn", "repdl-optim"):
        shutil.copytree(built[name].wheel, folder, dirs_exist_ok=True)
    return folder
