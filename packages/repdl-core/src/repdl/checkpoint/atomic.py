"""Files that are whole or not there: written beside the old one, flushed, renamed; one writer in a folder at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from repdl.errors import CheckpointError

if sys.platform == "win32":  # not run: nobody has tried it there
    import msvcrt
else:
    import fcntl

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
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise not_written(folder, error) from error
    try:
        if not _lock(descriptor):
            raise CheckpointError(
                f"checkpoint: another process saves into {folder}, expected one writer at a time: give each run a "
                f"folder of its own; nothing was written"
            )
        for stale in folder.glob(f".*{_UNFINISHED}"):  # of processes that were killed
            with suppress(OSError):
                stale.unlink()
        try:
            yield
        finally:
            _unlock(descriptor)  # a process that was forked meanwhile has the descriptor, too
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file for this process; False if another one has."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(descriptor: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


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
    """Let the names in a folder reach the disk; Windows opens no folders, and has no way to ask for that."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["LOCK", "flush_folder", "locked", "not_written", "replace"]
