"""What ranks other than 0 print: each line after the rank's number, or the last lines of one that fails."""

from __future__ import annotations

import os
import threading
from collections import deque

KEPT = 200
"""Lines of a stream of a silent rank that are kept, for its traceback."""
LONGEST = 1 << 16
"""Bytes after which a line is cut: a progress bar may never end one."""
_LOCK = threading.Lock()


class Stream:
    """Reads what a rank writes into a pipe, in a thread.

    Args:
        rank: its number.
        source: the end of the pipe that is read.
        target: the file descriptor that lines are written to, 1 or 2.
        is_shown: whether they are; else the last ones are kept.
    """

    def __init__(self, rank: int, source: int, target: int, is_shown: bool) -> None:
        self._prefix = f"[rank {rank}] ".encode()
        self._source, self._target, self._is_shown = source, target, is_shown
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._thread = threading.Thread(target=self._read, name=f"output of rank {rank}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Without having begun."""
        os.close(self._source)

    def end(self) -> None:
        """Wait until all is read; not for long, as a process that the rank has left behind may hold the pipe."""
        self._thread.join(1.0)

    def show_kept(self) -> None:
        """Write the last lines of a silent rank."""
        lines, self._kept = self._kept, deque(maxlen=KEPT)
        for line in lines:
            self._write(line)

    def _read(self) -> None:
        with os.fdopen(self._source, "rb") as file:
            while line := file.readline(LONGEST):
                if self._is_shown:
                    self._write(line)
                else:
                    self._kept.append(line)

    def _write(self, line: bytes) -> None:
        text = self._prefix + line.removesuffix(b"\n") + b"\n"
        with _LOCK:
            try:
                while text:
                    text = text[os.write(self._target, text) :]
            except OSError:  # nobody reads: the rank goes on, as its pipe is still emptied
                self._is_shown = False


__all__ = ["Stream"]
