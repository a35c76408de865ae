"""Declarations of ops: the contract text and the cases, beside schema and derivative.

Ops that need no files of their own for these put a declaration here: pointwise functions, losses, steps.
`tools/texts.py` writes the texts into the pages in `contract/v1`, `repdl.testing.generated` makes the cases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CaseSpec:
    """How the cases of an op are made.

    Args:
        maker: the function that makes the cases, by its name in `repdl.testing.generated.MAKERS`.
        values: the arguments of that function.
    """

    maker: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Declaration:
    """The contract text of an op, in Markdown, and how its cases are made."""

    text: str
    cases: CaseSpec


DECLARATIONS: dict[str, Declaration] = {}
"""Op -> its declaration."""


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
