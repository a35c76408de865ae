"""What `diff` found as one page of HTML, which needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from repdl.records.compare import Comparison
from repdl.records.entries import Entry
from repdl.records.narrower import narrower

_COLUMNS = 400
EQUAL, FOLLOWS, FIRST = "", "follows", "first"
"""What is said of an entry, and of a step or module by its worst one."""


@dataclass
class Module:
    """A module of the tree, and what is in it."""

    name: str
    depth: int = 0
    entries: int = 0
    differ: int = 0
    state: str = EQUAL
    children: dict[str, Module] = field(default_factory=dict)

    def add(self, state: str) -> None:
        """Count an entry."""
        self.entries += 1
        self.differ += state != EQUAL
        self.state = _worst((self.state, state))


@dataclass(frozen=True)
class Step:
    """A step of optimizers."""

    number: int
    entries: int
    differ: int
    state: str


def page(found: Comparison, most: int = 20) -> str:
    """The page.

    Args:
        most: how many differences are written out.
    """
    from jinja2 import Environment

    states = [(entry, found.states.get(entry.number, EQUAL)) for entry in found.a.entries]
    template = Environment(autoescape=True, trim_blocks=True).from_string(
        Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    )
    drift = [*_drift([state for _, state in states])]
    first = found.findings[0] if found.findings else None
    verdict = ("equal", "different", "equal as far as both go")[found.status]
    return template.render(
        title=f"{found.a.path.name} and {found.b.path.name}: {verdict}",
        a=found.a, b=found.b, findings=found.findings, compared=found.compared, consequences=found.consequences,
        environment=found.environment, keys=[*dict.fromkeys((*found.a.environment, *found.b.environment))],
        steps=[*_steps(states)], drift=drift, width=_width(len(states)), modules=_modules(states), most=most,
        next=narrower(found.a, first.a or first.b) if first else None,
    )  # fmt: skip


def _worst(states: Iterable[str]) -> str:
    return max(states, key=(EQUAL, FOLLOWS, FIRST).index, default=EQUAL)


def _steps(states: Sequence[tuple[Entry, str]]) -> Iterator[Step]:
    for number, group in groupby(states, lambda pair: pair[0].step):
        of_step = [state for _, state in group]
        yield Step(number, len(of_step), sum(state != EQUAL for state in of_step), _worst(of_step))


def _width(entries: int) -> int:
    """How many entries a column of the picture is."""
    return max(1, -(-entries // _COLUMNS))


def _drift(states: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    """Of each column its number, the percentage that differs, and whether a difference begins there."""
    width = _width(len(states))
    for column, begin in enumerate(range(0, len(states), width)):
        part = states[begin : begin + width]
        yield column, round(100 * sum(state != EQUAL for state in part) / len(part)), FIRST in part


def _modules(states: Sequence[tuple[Entry, str]]) -> list[Module]:
    """The outermost modules, with those in them."""
    top = Module("")
    for entry, state in states:
        module = top
        for depth, name in enumerate(entry.module.split(".") if entry.module else [""]):
            module = module.children.setdefault(name, Module(name, depth))
            module.add(state)
    return [*top.children.values()]


__all__ = ["page"]
