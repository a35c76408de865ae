"""Mistakes planted in the sources of kernels, to see that tests find them."""

from __future__ import annotations

import re
from collections.abc import Mapping


def plant(text: str, edits: Mapping[str, str], file: str) -> str:
    """`text` with each of the edits, whose old text must stand in it once; spaces and line breaks don't count.

    Raises:
        AssertionError: if an old text is not there, or more than once; `file` is named in it.
    """
    for old, new in edits.items():
        pattern = r"\s*".join(re.escape(token) for token in re.findall(r"\w+|\S", old))
        text, count = re.subn(pattern, lambda match, new=new: new, text)  # type: ignore[misc]
        assert count == 1, f"{file} has {count} of {old!r}: adapt the planted bug"
    return text
