"""Files that are whole or not there: written beside the old one, flushed, renamed; one writer in a folder at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from repdl.errors import CheckpointError

LOCK = ".repdl-checkpoint.lock"
_UNFINISHED = ".repdl-unfinished"
T = TypeVar("T")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Until the end of the block this process alone writes into the folder; a process that is killed lets go.

    Raises:
        CheckpointError: if another one writes, or the folder can't be written.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise not_written(folder, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(
                f"checkpoint: another process saves into {folder}, expected one writer at a time: give each run a "
                f"folder of its own; nothing was written"
            ) from None
        for stale in folder.glob(f".*{_UNFINISHED}"):  # of processes that were killed
            with suppress(OSError):
                stale.unlink()
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process that was forked meanwhile has the descriptor, too
    finally:
        os.close(descriptor)


def not_written(path: Path, error: OSError) -> CheckpointError:
    """The error for a file or folder that the system refuses to write."""
    return CheckpointError(
        f"checkpoint: {path} can't be written: {error.strerror}; checkpoints that were there are as they were"
    )


def replace(path: Path, write: Callable[[BinaryIO], T], named: Callable[[T], Path] | None = None) -> T:
    """Let `write` write a file that then takes the place of `path`, within `locked`; returns what it returns.

    Args:
        named: the name of the file by what `write` returned, in the same folder, in place of `path`.

    Raises:
        CheckpointError: if the system refuses; what was there before stays, and nothing lies beside it.
    """
    unfinished = path.parent / f".{path.name}.{os.getpid()}{_UNFINISHED}"
    try:
        with unfinished.open("xb") as file:
            result = write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path if named is None else named(result))
        flush_folder(path.parent)
        return result
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError):
            raise not_written(path, error) from error
        raise


def flush_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["LOCK", "flush_folder", "locked", "not_written", "replace"]
