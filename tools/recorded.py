"""Which sources a session of nox passed with last: the session skips them, as it would find nothing else.

    python tools/recorded.py SESSION           prints whether these sources are on record
    python tools/recorded.py SESSION --write   puts them on record; after the session has passed

The record, `tools/recorded.json`, has a digest for each session, of everything that decides what it finds. It is
committed with the sources.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tools/recorded.json"
_CUDA, _CORE = "packages/repdl-cuda", "packages/repdl-core/src/repdl"
SOURCES = {
    "audit-cuda": [
        *(f"{_CUDA}/{name}" for name in ("native", "contract", "cmake", "audit", "CMakeLists.txt", "pyproject.toml"))
    ],
    "parity-cuda-emulated": [
        *(f"{_CUDA}/{name}" for name in ("native", "contract", "cmake", "emulation", "src", "tests")),
        *(f"{_CUDA}/{name}" for name in ("CMakeLists.txt", "pyproject.toml")),
        *(f"{_CORE}/{name}" for name in ("callcache", "contract", "dtypes", "ops", "reference", "registry", "testing")),
    ],
}
"""Session -> files and folders, from the root of the repository."""
SUFFIXES = {".c", ".cmake", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".json", ".md", ".py", ".toml", ".txt"}


def digest(sources: list[str], root: Path = ROOT) -> str:
    """SHA-256 of these files, and of those in these folders, with their names."""
    found = {path for name in sources for path in [root / name, *(root / name).rglob("*")]}
    whole = hashlib.sha256()
    for path in sorted(path for path in found if path.suffix in SUFFIXES and path.is_file()):
        whole.update(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tools/recorded.py", description=__doc__.splitlines()[0])
    parser.add_argument("session", choices=SOURCES)
    parser.add_argument("--write", action="store_true", help="put these sources on record")
    args = parser.parse_args()
    recorded, now = json.loads(RECORD.read_text()), digest(SOURCES[args.session])
    if args.write:
        recorded[args.session] = now
        RECORD.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
    print("on record" if recorded.get(args.session) == now else "not on record")


if __name__ == "__main__":
    main()
