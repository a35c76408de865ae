"""Records of several ranks: a file of each."""

from __future__ import annotations

import os
import re
from pathlib import Path


def own_path(path: str | os.PathLike[str]) -> Path:
    """The file of this process, which is the given one unless a launcher has started it as one of several ranks."""
    path, rank = Path(path), os.environ.get("RANK", "")
    if not rank.isdecimal() or os.environ.get("WORLD_SIZE", "1") in ("", "1"):
        return path
    return path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


def of_ranks(path: str | os.PathLike[str]) -> dict[int, Path]:
    """The files of the ranks of a path that is no file itself, by rank."""
    path = Path(path)
    if path.exists() or not path.parent.is_dir():
        return {}
    name = re.compile(rf"{re.escape(path.stem)}\.rank(\d+){re.escape(path.suffix)}")
    found = ((name.fullmatch(other.name), other) for other in path.parent.iterdir())
    return dict(sorted((int(matched[1]), other) for matched, other in found if matched))


__all__ = ["of_ranks", "own_path"]
