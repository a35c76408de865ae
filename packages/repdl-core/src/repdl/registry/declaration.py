"""What the declaration of an op says beside its schema and derivative: its contract text and its cases.

Kinds of op that need no files of their own for these put a row here: pointwise functions, losses, steps.
`tools/texts.py` writes the texts into the pages in `contract/v1`, `repdl.testing.generated` makes the cases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tried:
    """What an op is tried with.

    Args:
        kind: what makes its cases, a name in `repdl.testing.generated.KINDS`.
        values: the arguments of that.
    """

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """Of one op: its text, in Markdown, and what it is tried with."""

    text: str
    tried: Tried


ROWS: dict[str, Row] = {}
"""Op -> its row."""


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
