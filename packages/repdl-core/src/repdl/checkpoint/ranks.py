"""A checkpoint of several ranks: a file of each rank, and one that names them by their digests and is written last.

Each rank holds the whole of its own state, generators and position in the data included; ranks only exchange digests
and errors. What one rank can't do, all refuse. A checkpoint is loaded by as many ranks as have saved it: other numbers
of ranks compute other bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from repdl.checkpoint.format import Advance, Header, read, read_header
from repdl.errors import CheckpointError

_PART = re.compile(r"\.(.+)\.rank-\d+\.([0-9a-f]{16})")
T = TypeVar("T")


def size() -> int:
    """How many ranks there are; 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process."""
    return dist.get_rank() if size() > 1 else 0


def together(what: Callable[[], T]) -> T:
    """What a function returns on this rank, once it has returned on every rank.

    Raises:
        CheckpointError: on every rank, if it raised on one; there it is the error itself.
    """
    if size() == 1:
        return what()
    error: Exception | None = None
    try:
        value = what()
    except Exception as raised:
        error = raised
    failed = [(r, said) for r, said in enumerate(gathered("" if error is None else str(error) or repr(error))) if said]
    if error is not None:
        raise error
    if failed:
        raise CheckpointError(f"checkpoint: rank {failed[0][0]} failed, and so all ranks: {failed[0][1]}")
    return value


def gathered(text: str) -> list[str]:
    """The text of every rank."""
    found: list[Any] = [text]
    if size() > 1:
        found = [None] * size()
        dist.all_gather_object(found, text)
    return found


def part(path: Path, number: int, digest: str) -> Path:
    """The file of a rank. Its name has the beginning of its digest, so that no other checkpoint's takes its place."""
    return path.with_name(f".{path.name}.rank-{number}.{digest[:16]}")


def index(digests: list[str]) -> Any:
    """The structure of the file that names those of the ranks."""
    return {"dict": [["ranks", digests]]}


def digests_of(header: Header) -> list[str]:
    """The digests of the files of the ranks; none for a checkpoint of one process."""
    digests = dict(header.tree["dict"]).get("ranks", []) if header.facts.get("ranks") else []
    return [str(digest) for digest in digests]


def remove_unnamed(folder: Path) -> None:
    """Remove the files of ranks that no checkpoint names."""
    for file in folder.iterdir():
        named = _PART.fullmatch(file.name)
        if named is None:
            continue
        with suppress(CheckpointError, FileNotFoundError):
            whole = folder / named[1]
            known = [d[:16] for d in digests_of(read_header(whole))] if whole.exists() else []
            if named[2] not in known:
                file.unlink()


def read_own(path: Path, advance: Advance = lambda count: None) -> tuple[Header, Header, Any]:
    """The header of a checkpoint, and header and tensors of the file of this rank.

    Raises:
        CheckpointError: if one is damaged, or another number of ranks has saved it.
    """
    whole = read_header(path)
    digests = digests_of(whole)
    if (len(digests) or 1) != size():
        raise CheckpointError(
            f"checkpoint: {path} is of {len(digests) or 1} ranks, and here are {size()}; expected the same number, "
            f"since others compute other bits"
        )
    if not digests:
        header, tensors = read(path, advance)
        return header, header, tensors
    header, tensors = _read_part(path, rank(), digests[rank()], advance)
    return whole, header, tensors


def _read_part(path: Path, number: int, digest: str, advance: Advance = lambda count: None) -> tuple[Header, Any]:
    header, tensors = read(part(path, number, digest), advance)
    if header.digest != digest:
        raise CheckpointError(f"checkpoint: {path} names {digest} of rank {number}, and its file has {header.digest}")
    return header, tensors


def check_whole(path: Path) -> None:
    """Read every byte of a checkpoint, of all its ranks.

    Raises:
        CheckpointError: if a file is damaged or missing.
    """
    header, _ = read(path)
    for number, digest in enumerate(digests_of(header)):
        _read_part(path, number, digest)


__all__ = [
    "check_whole",
    "digests_of",
    "gathered",
    "index",
    "part",
    "rank",
    "read_own",
    "remove_unnamed",
    "size",
    "together",
]
