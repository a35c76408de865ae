"""Which sources a session of nox passed with last: the session skips them, as it would find nothing else.

    python tools/recorded.py SESSION                  prints the digest of its sources, and whether they are on record
    python tools/recorded.py SESSION --write DIGEST   puts them on record, if they still have the digest

The record, `tools/recorded.json`, has a digest for each session, of the files in the repository that decide what it
finds. It is committed with them. Compilers and Python are not in it: a machine with others runs the session.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tools/recorded.json"
_CUDA = "packages/repdl-cuda"
SOURCES = {
    "audit-cuda": [
        *(f"{_CUDA}/{name}" for name in ("native", "contract", "cmake", "audit", "CMakeLists.txt", "pyproject.toml"))
    ],
    "parity-cuda-emulated": [
        *(f"{_CUDA}/{name}" for name in ("native", "contract", "cmake", "emulation", "src", "tests")),
        *(f"{_CUDA}/{name}" for name in ("CMakeLists.txt", "pyproject.toml")),
        *(f"packages/repdl-{name}" for name in ("core/src", "core/pyproject.toml", "nn/src", "optim/src")),
        *("packages/repdl-core/tests/registry/test_coverage.py", "tests/test_mnist.py", "tests/conftest.py"),
        *("examples", "conftest.py", "pytest.ini", "constraints.txt", "noxfile.py"),
    ],
}
"""Session -> files and folders, from the root of the repository."""
SUFFIXES = {".c", ".cmake", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ini", ".json", ".md", ".py", ".toml", ".txt"}


def digest(sources: list[str], root: Path = ROOT) -> str:
    """SHA-256 of these files, and of those in these folders, with their names; not of hidden ones, as tools leave."""
    found = {path for name in sources for path in [root / name, *(root / name).rglob("*")]}
    shown = [path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)]
    whole = hashlib.sha256()
    for path in sorted(path for path in shown if path.suffix in SUFFIXES and path.is_file()):
        whole.update(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tools/recorded.py", description=__doc__.splitlines()[0])
    parser.add_argument("session", choices=SOURCES)
    parser.add_argument("--write", metavar="DIGEST", help="put these sources on record, if they still have the digest")
    args = parser.parse_args()
    recorded, now = json.loads(RECORD.read_text()), digest(SOURCES[args.session])
    if args.write == now:
        recorded[args.session] = now
        RECORD.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
    elif args.write:
        print(f"{args.session}: its sources have changed since it began, and are not put on record")
        return
    print(now, "on record" if recorded.get(args.session) == now else "not on record")


if __name__ == "__main__":
    main()
