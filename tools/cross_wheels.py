"""Build wheels of repdl-cpu for other platforms than this one, by the C++ compiler of Zig (`pip install ziglang`).

    python tools/cross_wheels.py                          # all platforms, into build/dist
    python tools/cross_wheels.py manylinux_2_28_aarch64

Zig brings the headers of each C library, in the versions that it is told, so that what is built here runs with older
ones. Python's own headers are this machine's: they are the same for every 64-bit Linux. The wheel is for the version of
Python that runs this. RELEASING.md says how to try one under an emulator.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from wheels import ROOT, run

PLATFORMS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
}
"""Of a wheel's name -> of Zig's compiler."""
COMPILER = """#!/bin/sh
# Zig spells the levels of x86-64 with an underscore.
for word; do
  shift
  case $word in -march=x86-64-*) word=-march=x86_64_${{word#-march=x86-64-}} ;; esac
  set -- "$@" "$word"
done
exec {python} -m ziglang c++ -target {target} "$@"
"""


def build(platform: str, folder: Path) -> Path:
    """The wheel for a platform."""
    target = PLATFORMS[platform]
    processor, _, abi = target.partition(".")[0].split("-")
    soabi = f"cpython-{sysconfig.get_config_var('py_version_nodot')}-{processor}-linux-{abi}"
    with tempfile.TemporaryDirectory() as made:
        compiler = Path(made) / "c++"
        compiler.write_text(COMPILER.format(python=shlex.quote(sys.executable), target=target))
        compiler.chmod(0o755)
        defined = {
            "CMAKE_SYSTEM_NAME": "Linux",
            "CMAKE_SYSTEM_PROCESSOR": processor,
            "CMAKE_CXX_COMPILER": compiler,
            "PYTHON_MODULE_EXTENSION": f".{soabi}.so",
            "Python_SOABI": soabi,
            "REPDL_CPU_ISAS": "all",
        }
        settings = [f"-Ccmake.define.{name}={value}" for name, value in defined.items()]
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            made,
            *settings,
        ]
        run(
            *command,
            ROOT / "packages/repdl-cpu",
            SETUPTOOLS_EXT_SUFFIX=f".{soabi}.so",
            _PYTHON_HOST_PLATFORM=f"linux-{processor}",
            SOURCE_DATE_EPOCH=run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip(),
        )
        (wheel,) = Path(made).glob("*.whl")
        repaired = Path(made) / "repaired"
        # It names the oldest C library that has what the wheel calls. Zig calls musl libc.so, as musl's own loader also
        # does, and auditwheel libc.musl-x86_64.so.1; this machine's libc.so is another library.
        elsewhere = ("--ldpaths", made, "--exclude", "libc.so") if platform.startswith("musl") else ()
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", *elsewhere, "-w", repaired, wheel)
        (wheel,) = repaired.glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, folder / wheel.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", choices=[*PLATFORMS, []], help="default: all")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/dist")
    given = parser.parse_args()
    for platform in given.platforms or PLATFORMS:
        begin = time.perf_counter()
        wheel = build(platform, given.folder.resolve())
        print(f"{wheel.name}: built in {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
