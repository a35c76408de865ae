"""torch's ops computed by RepDL for the extent of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from repdl.overrides.within import Owner, begin, end


@contextmanager
def by_repdl(name: str) -> Iterator[None]:
    """Until the end of the block this thread computes torch's ops by RepDL, or raises an error with the name."""
    before = begin(Owner(f"repdl.optim's {name}", raises=True, is_converted=False))
    try:
        yield
    finally:
        end(before)


__all__ = ["by_repdl"]
