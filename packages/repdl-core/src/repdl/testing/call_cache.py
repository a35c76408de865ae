"""Whether calls are repeated from the call cache."""

from __future__ import annotations

from typing import Any

from repdl.settings.generation import GENERATION


def is_cached(function: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether calls with these arguments are run from a recording."""
    GENERATION.advance()
    for _ in range(2):
        function(*args, **kwargs)
    return bool(function.recordings)
