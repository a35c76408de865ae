"""Build the sdists of all packages, the wheels of all but repdl-cuda if it is not asked for, and try them as a user.

    python tools/wheels.py             # into build/dist, by what noxfile.py lists as RELEASE_TOOLS
    python tools/wheels.py --twice     # builds everything twice: the files must be the same bytes
    python tools/wheels.py --cuda      # the wheel of repdl-cuda too: 7 minutes on two cores
    python tools/wheels.py --pure      # no wheel of repdl-cpu, and nothing is tried
    python tools/wheels.py --try       # only tries what is there: new environment, no compiler, README's program
    python tools/wheels.py --try --other FOLDER  # and the wheels of another version over them, and these again
    python tools/wheels.py --first     # only runs that program, by what is installed here

Wheels are built from the sdists. The date of the last commit stands for the time in archives, so that every
machine with the same compiler builds the same bytes; SHA256SUMS lists them. What was installed to try them, with
versions and licences, is listed in repdl.cdx.json beside the folder (CycloneDX).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
# An sdist needs nothing of what compiles: not in an environment of its own, which would get nvcc.
SDIST = ("--sdist", "--no-isolation", "--skip-dependency-check")
PACKAGES: dict[str, tuple[str, ...]] = {
    "repdl-core": (),
    "repdl-cpu": ("-Ccmake.define.REPDL_CPU_ISAS=all",),
    "repdl-nn": (),
    "repdl-optim": (),
    "repdl-cuda": SDIST,
}
"""Name -> options of its build."""
SUMS = "SHA256SUMS"


def run(*command: str | Path, **environment: str) -> str:
    """What a command prints; it ends the program if it fails."""
    done = subprocess.run(
        [str(word) for word in command], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path, packages: Mapping[str, Sequence[str]]) -> None:
    """Sdists, and the wheels built from them, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    date = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    for package, options in packages.items():
        begin = time.perf_counter()
        source = ROOT / "packages" / package
        run(sys.executable, "-m", "build", *options, "--outdir", folder, source, SOURCE_DATE_EPOCH=date)
        for wheel in folder.glob("*-linux_*.whl"):  # names the oldest C library that it runs with
            run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, SOURCE_DATE_EPOCH=date)
            wheel.unlink()
        print(f"{package}: built in {time.perf_counter() - begin:.0f} s", flush=True)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir()))
    (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums(folder).items()))


def sums(folder: Path) -> dict[str, str]:
    """File -> SHA-256."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def run_first_program(python: str | Path, **environment: str) -> None:
    """That of README, which says the digest that it prints."""
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:1]
    (digest,) = re.findall(r"# ([0-9a-f]{64})$", program, re.MULTILINE)
    begin = time.perf_counter()
    said = run(python, "-c", program, **environment).strip()
    if said != digest:
        sys.exit(f"README's first program printed {said}, expected {digest}")
    print(f"README's first program: {digest}, in {time.perf_counter() - begin:.0f} s")


def versions(folder: Path) -> list[str]:
    """What pip is told to install from a folder: each package at the version that lies there, one for all."""
    names = {"==".join(wheel.name.split("-")[:2]) for wheel in folder.glob("repdl_*.whl")}
    if len({name.partition("==")[2] for name in names}) != 1:
        sys.exit(f"{folder} has {sorted(names) or 'no wheel'}, expected the wheels of one version")
    return sorted(names)


def try_out(folder: Path, other: Path | None = None) -> None:
    """Install from the folder alone, into a new environment without a compiler, and run README's first program.

    Then the same with the wheels of another version over those, and with these again: an upgrade and a downgrade, in
    one order or the other, after which the digest is the same.
    """
    place = folder.parent / "tried"
    venv.create(place, clear=True, with_pip=True)
    python = place / "bin/python"
    pip = (python, "-m", "pip", "install", "-q", "--only-binary=:all:")
    lines = (ROOT / "packages/repdl-core/pyproject.toml").read_text()
    (needed,) = re.findall(r"^dependencies = \[(.*)\]$", lines, re.MULTILINE)
    run(*pip, "-c", ROOT / "constraints.txt", *re.findall(r'"([^"]+)"', needed))
    begin = time.perf_counter()
    alone = {"PATH": str(place / "bin"), "CC": "false", "CXX": "false", "PYTHONPATH": ""}
    extras = "cpu,nn,optim" + (",cuda" if [*folder.glob("repdl_cuda-*.whl")] else "")
    run(*pip, "--no-index", "--find-links", folder, f"repdl-core[{extras}]", **alone)
    print(f"installed {extras} in {time.perf_counter() - begin:.0f} s")
    print(run(python, "-m", "repdl", "info", **alone), end="")
    bill = folder.parent / "repdl.cdx.json"
    words = ("--output-reproducible", "--sv", "1.6", "--of", "JSON", "-o", bill)
    run(sys.executable, "-m", "cyclonedx_py", "environment", python, *words)
    run_first_program(python, **alone)
    for wheels in (other, folder) if other else ():
        wanted = versions(wheels)
        run(*pip, "--no-index", "--find-links", wheels, *wanted, **alone)
        listed = run(python, "-m", "pip", "list", "--format=freeze").replace("-", "_").split()
        if missing := sorted({*wanted} - {*listed}):
            sys.exit(f"not installed: {', '.join(missing)}")
        print(f"installed {', '.join(wanted)} over what was there")
        run_first_program(python, **alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/dist")
    parser.add_argument("--cuda", action="store_true", help="the wheel of repdl-cuda too")
    parser.add_argument("--other", type=Path, metavar="FOLDER", help="wheels of another version, to change to and back")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--twice", action="store_true", help="build again, and compare the bytes")
    what.add_argument("--pure", action="store_true", help="no wheel of repdl-cpu, and nothing is tried")
    what.add_argument("--try", dest="only_try", action="store_true", help="build nothing")
    what.add_argument("--first", action="store_true", help="run the program here")
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.first:
        return run_first_program(sys.executable)
    if given.pure:
        return build(folder, PACKAGES | {"repdl-cpu": SDIST})
    packages = PACKAGES | ({"repdl-cuda": ()} if given.cuda else {})
    if not given.only_try:
        build(folder, packages)
    if given.twice:
        again = folder.parent / f"{folder.name}-again"
        build(again, packages)
        differ = [name for name, digest in sums(folder).items() if sums(again).get(name) != digest]
        if differ:
            sys.exit(f"not the same bytes twice: {', '.join(differ)}")
        print("the same bytes twice")
    try_out(folder, given.other)


if __name__ == "__main__":
    main()
