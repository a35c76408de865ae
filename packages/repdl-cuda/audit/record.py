"""Which sources were audited last: so that an audit of the same ones is not repeated.

    python -m audit.record           prints whether these sources are on record
    python -m audit.record --write   puts them on record; after an audit without a violation

The record is a digest of everything that decides what nvcc makes: kernels, headers, build files, versions of the
compiler's packages, and the audit's own code.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("native", "contract", "cmake", "CMakeLists.txt", "pyproject.toml", "audit")
SUFFIXES = {".cu", ".cuh", ".cpp", ".hpp", ".h", ".cmake", ".txt", ".toml", ".py"}
RECORD = HERE / "audited.sha256"


def digest(package: Path) -> str:
    """SHA-256 of the files that decide what is audited, by their names."""
    found = [path for name in SOURCES for path in [package / name, *(package / name).rglob("*")]]
    whole = hashlib.sha256()
    for path in sorted(path for path in found if path.suffix in SUFFIXES and path.is_file()):
        whole.update(f"{path.relative_to(package)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m audit.record", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put these sources on record")
    now = digest(HERE.parent)
    if parser.parse_args().write:
        RECORD.write_text(f"{now}\n")
    print("on record" if RECORD.exists() and RECORD.read_text().strip() == now else "not on record")


if __name__ == "__main__":
    main()
