"""After an edit of a kernel: build what changed and run the tests of a name.

    nox -s dev -- softmax              # or python tools/dev.py softmax, with the tools of that session
    nox -s dev -- "softmax and not opcheck" -x

The kernels are compiled file by file for the best ISA of this machine, and those of repdl-cuda for
its emulation, in build/dev; the modules lie in the source tree, where git does not see them. Other
ISAs, planted bugs and everything else: `nox`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pybind11
import tomli

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build/dev"
NO_TESTS = 5
"""What pytest returns where nothing has the name."""
CPU, CUDA = ROOT / "packages/repdl-cpu", ROOT / "packages/repdl-cuda"
OPTIONS = {CPU: ["-DCMAKE_UNITY_BUILD=OFF"], CUDA: ["-DREPDL_CUDA_EMULATED=ON", "-DREPDL_CUDA_DEVICE=OFF"]}


def build(package: Path, *targets: str) -> None:
    """Compile targets of a package into its source tree; configure once, file by file."""
    folder, module = BUILD / package.name, package / "src" / package.name.replace("-", "_")
    if not (folder / "build.ninja").exists():
        places = [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}", f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={module}"]
        command = ["cmake", "-G", "Ninja", "-S", str(package), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
        subprocess.run([*command, f"-DPython_EXECUTABLE={sys.executable}", *places, *OPTIONS[package]], check=True)
    subprocess.run(["ninja", "-C", str(folder), *targets], check=True)


def best_isa() -> str:
    """The best ISA of this machine, asked of the module that knows, without its package."""
    build(CPU, "_machine")
    (path,) = (CPU / "src/repdl_cpu").glob("_machine.*.so")
    spec = spec_from_file_location("_machine", path)
    assert spec is not None and spec.loader is not None
    machine: Any = module_from_spec(spec)
    spec.loader.exec_module(machine)
    return str(machine.supported_isas()[0])


def metadata(package: Path) -> None:
    """What an installer would write of the package that others look up: its name and entry points."""
    project = tomli.loads((package / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    folder = BUILD / "metadata" / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = {**project.get("entry-points", {}), "console_scripts": project.get("scripts", {})}
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *map(" = ".join, points.items()))]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="a family, or what pytest -k takes")
    args, rest = parser.parse_known_args()
    isa = best_isa()
    with ThreadPoolExecutor() as pool:  # at once: after an edit each compiles a file or two
        list(pool.map(lambda arguments: build(*arguments), [(CPU, "_call", f"_{isa}"), (CUDA,)]))
    packages = sorted((ROOT / "packages").glob("repdl-*"))
    shutil.rmtree(BUILD / "metadata", ignore_errors=True)
    for package in packages:
        metadata(package)
    path = [str(BUILD / "metadata"), *(str(package / "src") for package in packages)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "REPDL_CPU_ISA": isa,
        "REPDL_CPU_TEST_ISAS": isa,
        "PYTHONDONTWRITEBYTECODE": "",  # pytest keeps the tests that it has rewritten: five seconds
    }
    ignored = [f"--ignore={package}/tests/test_planted.py" for package in (CPU, CUDA)]
    command = [sys.executable, "-m", "pytest", *ignored, "-k", args.name, *rest]
    native = [str(package / "tests") for package in packages if package in (CPU, CUDA)]
    pure = [str(package / "tests") for package in packages if package not in (CPU, CUDA)]
    # Two processes: collecting takes as long as the tests of one family.
    with subprocess.Popen([*command, *pure], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as other:
        first = subprocess.run([*command, *native], cwd=ROOT, env=environment, check=False).returncode
        print(other.communicate()[0], end="")
    failed = {first, other.returncode} - {0, NO_TESTS}
    return max(failed, default=NO_TESTS if first == other.returncode == NO_TESTS else 0)


if __name__ == "__main__":
    sys.exit(main())
