"""A progress bar where one is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from repdl.checkpoint.format import Advance


@contextmanager
def progress_bar(what: str, size: int, is_shown: bool) -> Iterator[Advance]:
    """What is told how many bytes are done.

    Without a bar there is no tqdm: even one that shows nothing takes a lock that all forked processes share, and waits
    for ever after one of them was killed with it.
    """
    if not is_shown:
        yield lambda count: None
        return
    with tqdm(total=size, desc=what, unit="B", unit_scale=True) as bar:
        yield bar.update


__all__ = ["progress_bar"]
