"""The file of a record: lines of JSON, compressed by gzip as they come, so that `zcat` shows them.

The first line is the environment, the last one says that the run ended. A run that is killed leaves a file without its
last lines, which can be read up to there.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from repdl.errors import RecordError
from repdl.records.entries import LEVELS, Entry

FORMAT = "repdl record 1"
_GZIP = 31
"""The bits of a window of zlib with gzip's header."""
_FLUSHED = 1 << 18
"""Characters after which what was written reaches the file."""


class Writer:
    """Writes a record; `close` ends it.

    Raises:
        RecordError: if the file can't be written.
    """

    def __init__(self, path: str | os.PathLike[str], environment: Mapping[str, Any]) -> None:
        self._path = Path(path)
        try:
            self._file = self._path.open("wb", buffering=0)
        except OSError as error:
            raise RecordError(f"record: {path} can't be written: {error.strerror}") from error
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._lines: list[str] = []
        self._size = 0
        self._write({"format": FORMAT, "environment": dict(environment)})
        self.flush()

    def add(self, entry: Entry) -> None:
        """Write an entry."""
        self._write(entry.as_json())
        if self._size > _FLUSHED:
            self.flush()

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":"))
        self._lines.append(text)
        self._size += len(text)

    def flush(self) -> None:
        """Let what was written reach the file."""
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines, self._size = [], 0
        self._put(self._compressor.compress(text.encode()) + self._compressor.flush(zlib.Z_SYNC_FLUSH))

    def close(self, error: str = "") -> None:
        """End the record of a run that ended, by an error or without one."""
        with self._file:
            self._write({"end": True, "error": error})
            self.flush()
            self._put(self._compressor.flush())

    def _put(self, block: bytes) -> None:
        rest = memoryview(block)
        try:
            while rest:  # the system may take a part of it
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise RecordError(f"record: {self._path} can't be written: {error.strerror}; it ends here") from error


@dataclass(frozen=True)
class Record:
    """What is in a file."""

    path: Path
    environment: Mapping[str, Any]
    entries: list[Entry]
    ended: bool
    """Whether the run ended; else the file stops somewhere."""
    error: str = ""
    """What the run raised."""

    @property
    def level(self) -> str:
        """The finest that was noted."""
        return str(self.environment.get("level", LEVELS[-1]))

    def at(self, level: str) -> Record:
        """What a record of a coarser level has of this one."""
        finer = LEVELS[LEVELS.index(level) + 1 :]
        return replace(self, entries=[entry for entry in self.entries if entry.kind not in finer]) if finer else self


def read(path: str | os.PathLike[str]) -> Record:
    """Read a record.

    Raises:
        RecordError: if the file is none, or can't be read.
    """
    path = Path(path)
    lines = _lines(path)
    first = next(lines, {})
    if first.get("format") != FORMAT:
        raise RecordError(f"record: {path} is no record of this version, expected a file of `repdl record` ({FORMAT})")
    entries, last = [], {}
    for line in lines:
        if "end" in line:
            last = line
        else:
            entries.append(Entry.from_json(line))
    return Record(path, first["environment"], entries, bool(last), last.get("error", ""))


def is_record(path: Path) -> bool:
    """Whether a file begins as a record does: with gzip's header."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    decompressor, rest = zlib.decompressobj(_GZIP), b""
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 16):
                *whole, rest = (rest + decompressor.decompress(block)).split(b"\n")
                yield from map(json.loads, whole)
    except OSError as error:
        raise RecordError(f"record: {path} can't be read: {error.strerror}") from error
    except (zlib.error, ValueError) as error:
        raise RecordError(f"record: {path} is damaged: {error}") from error


__all__ = ["FORMAT", "Record", "Writer", "is_record", "read"]
