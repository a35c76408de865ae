"""Python's search for garbage, while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected(once: bool = False) -> Iterator[None]:
    """Thousands of objects are made here and stay: looking for garbage among them takes up to half of the time.

    Args:
        once: this happens once in a process, so at the end all objects count as old ones, and the next search for
            young garbage does not look at them either. Again and again it would hide garbage from every search.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if once and gc.get_freeze_count() == 0:  # else what the program has frozen would be searched again
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def keep_modules() -> None:
    """What was imported stays until the end of this process: Python does not search it for garbage any more.

    A process in which torch and Dynamo were imported ends in 0.2 seconds instead of one. What a program makes after
    this is searched as always.
    """
    gc.freeze()


__all__ = ["keep_modules", "uncollected"]
