"""No expression reads what a call in it changes: C++ gives no order to the two, and compilers differ."""

from __future__ import annotations

import re
from pathlib import Path

NATIVE = Path(__file__).parents[1] / "native"
CHANGED = re.compile(r"\.split\((\w+)\)")
"""Calls that change their argument (base/divide.hpp)."""


def read_beside(source: str) -> list[str]:
    """The expressions in which a variable stands that a call changes."""
    plain = re.sub(r"//.*", "", source)
    # A declaration of several variables computes one after the other.
    expressions = (piece for s in re.split(r"[;{}]", plain) for piece in re.split(r", (?=\w+ = )", s))
    return [
        " ".join(expression.split())
        for expression in expressions
        if any(len(re.findall(rf"\b{name}\b", expression)) > 1 for name in CHANGED.findall(expression))
    ]


def test_order__changed_where_nothing_else_reads() -> None:
    found = {path.name: read_beside(path.read_text()) for path in NATIVE.rglob("*.*")}
    assert len(found) > 30 and not any(found.values()), found


def test_order__such_an_expression_is_seen() -> None:
    assert read_beside("from = base + area.split(j) * image + j;") == ["from = base + area.split(j) * image + j"]
    assert not read_beside("const int n = area.split(j), i = row.split(j);")
