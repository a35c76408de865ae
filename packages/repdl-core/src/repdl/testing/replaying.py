"""Whether calls take the fast way (`repdl.replay`)."""

from __future__ import annotations

from typing import Any

from repdl import replay


def is_replayed(function: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether calls with these arguments are run from a recording."""
    replay.EPOCH.end()
    for _ in range(2):
        function(*args, **kwargs)
    return bool(function.recordings)
