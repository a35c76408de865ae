"""The checkpoints of a folder: the latest, and those that are removed."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from repdl.checkpoint.format import FORMAT, Header, read_header
from repdl.checkpoint.ranks import check_whole, gathered, rank, together
from repdl.errors import CheckpointError

_NUMBER = re.compile(r"\d+")


def saved(
    folder: Path, pass_over: Callable[[CheckpointError], object] = lambda error: None
) -> list[tuple[Path, Header]]:
    """The checkpoints of a folder with their headers, those that were saved last first; `pass_over` is told of damaged
    ones, which are left out."""
    found = []
    for path in checkpoints(folder):
        try:
            found.append((path, read_header(path)))
        except CheckpointError as error:
            pass_over(error)
    return sorted(found, key=lambda pair: pair[1].facts["time"], reverse=True)


def checkpoints(folder: Path) -> list[Path]:
    """The files of a folder that say that they are checkpoints, in the order of the numbers in their names."""
    found = [path for path in folder.iterdir() if is_checkpoint(path)]
    return sorted(found, key=lambda path: ([int(n) for n in _NUMBER.findall(path.name)], path.name))


def is_checkpoint(path: Path) -> bool:
    """Whether a file says that it is one: the format stands at the beginning of the header."""
    if path.name.startswith(".") or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return f'"format":"{FORMAT}"'.encode() in file.read(200)
    except OSError:
        return False


def latest(folder: str | os.PathLike[str]) -> Path | None:
    """The checkpoint of a folder that was saved last and is whole; None if there is none. Rank 0 looks for all ranks.

    Every byte of it is checked. One that was saved later and is damaged is passed over with a warning, which says what
    is wrong with it.

    Raises:
        CheckpointError: if there is no such folder.
    """
    path = Path(folder)
    if not path.is_dir():
        raise CheckpointError(f"latest: {path} is no folder, expected that of checkpoints")
    found = gathered(together(lambda: str(_latest(path) or "") if not rank() else ""))[0]
    return Path(found) if found else None


def _latest(path: Path) -> Path | None:
    def pass_over(error: CheckpointError) -> None:
        warnings.warn(f"latest: passed over: {error}", stacklevel=7)

    for file, _ in saved(path, pass_over):
        try:
            check_whole(file)
        except CheckpointError as error:
            pass_over(error)
        else:
            return file
    return None


def check_keep(path: Path, keep: int | None) -> None:
    """Raise unless `keep` can be meant.

    Raises:
        CheckpointError: if it is no positive number, or the name of the file has none.
    """
    if keep is None:
        return
    if type(keep) is not int or keep < 1:
        raise CheckpointError(f"checkpoint: keep is {keep!r}, expected an integer of 1 or more, or None")
    if not _NUMBER.search(path.name):
        raise CheckpointError(
            f"checkpoint: keep is {keep} and {path.name} has no number, expected a name such as step-10"
        )


def remove_old(path: Path, keep: int) -> None:
    """Remove all but the last `keep` checkpoints whose names differ from that of `path` in numbers only."""
    family = _NUMBER.sub("#", path.name)
    others = [file for file, _ in saved(path.parent) if file != path and _NUMBER.sub("#", file.name) == family]
    for file in others[keep - 1 :]:
        with suppress(FileNotFoundError):
            file.unlink()


__all__ = ["check_keep", "checkpoints", "is_checkpoint", "latest", "remove_old", "saved"]
