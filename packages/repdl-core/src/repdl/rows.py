"""What the declaration of an op says beside its schema and derivative: its contract text and its cases.

Kinds of op that need no files of their own for these put a row here: pointwise functions, losses, steps.
`tools/texts.py` writes the texts into the pages in `contract/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repdl.testing.cases import Case


@dataclass(frozen=True)
class Row:
    """Of one op: its text, in Markdown, and a function that makes its cases, float32 ones."""

    text: str
    cases: Callable[[], list[Case]]


ROWS: dict[str, Row] = {}
"""Op -> its row."""


def generated() -> Any:
    """The module `repdl.testing.generated`, which is imported where cases are made."""
    return import_module("repdl.testing.generated")


def item(call: str, order: str, backward: str = "") -> str:
    """The text of an op that shares a page with others."""
    derivative = f" Backward: {' '.join(backward.split())}." if backward else ""
    return f"- `{call}`: {' '.join(order.split())}.{derivative}"


def unwrapped(text: str) -> str:
    """A text with each paragraph and each item of a list on one line, as Markdown pages have them."""
    lines: list[str] = []
    for line in (line.strip() for line in text.strip().splitlines()):
        if not line or not lines or not lines[-1] or re.match(r"#|- |\d+\. ", line):
            lines.append(line)
        else:
            lines[-1] += f" {line}"
    return "\n".join(lines)
