"""Bytes on their way to the disk, which are hashed, and flushed, while those after them are written."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, BinaryIO

_CHUNK = 2**24
_AHEAD = 4
"""How many chunks may wait for their hash: memory that is held where tensors are copied from a GPU."""
_FLUSHED = 2**26
"""After how many bytes the disk is asked to begin."""


class Stream:
    """A file that is written, in a `with` block; at its end all hashes are complete."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._unflushed = file, 0
        self._hashing, self._flushing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._waiting: deque[Future[Any]] = deque()
        self._flush: Future[Any] | None = None

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._settle(0)
                if self._flush is not None:
                    self._flush.result()
        finally:
            self._hashing.shutdown()
            self._flushing.shutdown()

    def write(self, raw: memoryview, result: Any, advance: Any) -> None:
        """Write bytes and add them to a hash; `advance` is told how many there were."""
        for begin in range(0, raw.nbytes, _CHUNK):
            part = raw[begin : begin + _CHUNK]
            self._waiting.append(self._hashing.submit(result.update, part))
            self._file.write(part)
            self._settle(_AHEAD)
            self._begin_flush(part.nbytes)
            advance(part.nbytes)

    def _settle(self, most: int) -> None:
        """Wait until at most so many chunks have no hash."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()

    def _begin_flush(self, count: int) -> None:
        self._unflushed += count
        if self._unflushed >= _FLUSHED and (self._flush is None or self._flush.done()):
            if self._flush is not None:
                self._flush.result()
            self._file.flush()
            self._unflushed = 0
            self._flush = self._flushing.submit(getattr(os, "fdatasync", os.fsync), self._file.fileno())


__all__ = ["Stream"]
