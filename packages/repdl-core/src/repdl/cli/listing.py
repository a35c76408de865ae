"""What `repdl ops` lists: ops with their files, and the backends that implement them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

import repdl
from repdl.registry import OPS, implementations
from repdl.registry.backend import backends, get_backend
from repdl.registry.families import Family, families
from repdl.registry.plugins import plugins
from repdl.utils import table


@dataclass(frozen=True)
class Row:
    """An op.

    Args:
        op: its name in the registry.
        family: whose files it shares; `repdl contract` and `repdl check --family` take it.
        has_text: whether the family has a contract text.
        cases: how many there are; None if their file can't be read.
        problem: why it can't be read.
        distribution: the package that brings the op.
        backends: those that implement it.
    """

    op: str
    family: str
    has_text: bool
    cases: int | None
    problem: str | None
    distribution: str
    backends: tuple[str, ...]


def family_of_name(name: str) -> str:
    """The family of an op or, by its docstring, of a function of `repdl.ops`; other names as they are."""
    plugins()
    if name in OPS:
        return OPS[name].family
    if name in repdl.ops.__all__:
        return str(getattr(repdl.ops, name).__doc__).partition("Contract: ")[2].split()[0]
    return name


def usable() -> list[str]:
    """The backends that are loaded."""
    return [name for name, row in backends().items() if row.error is None]


def listed(
    names: Sequence[str] = (),
    of_families: Sequence[str] = (),
    by: Sequence[str] = (),
    lacking: Sequence[str] = (),
) -> tuple[list[Row], list[str]]:
    """The ops that are asked for, and those of `names` by which none is meant.

    Args:
        names: of ops, with `*` and `?` too, or of functions of `repdl.ops`, which stand for the ops of their family.
        of_families: only these families; all if there are none, as in the following.
        by: only what these backends implement.
        lacking: only what one of these backends does not implement.
    """
    known = families()  # first: plug-ins add to what backends implement
    implemented = {name: implementations(get_backend(name)) for name in usable()}
    every = [row for family in known.values() for row in _rows(family, implemented)]
    meant = {name: _meant(name, every) for name in names}
    rows = [
        row
        for row in every
        if (not names or any(row in found for found in meant.values()))
        and (not of_families or row.family in of_families)
        and set(by) <= set(row.backends)
        and (not lacking or not set(lacking) <= set(row.backends))
    ]
    return rows, [name for name, found in meant.items() if not found]


def _rows(family: Family, implemented: dict[str, Any]) -> Iterator[Row]:
    from repdl.testing.cases import with_derived, written

    counts, problem, has_text = Counter[str](), None, family.text() is not None
    try:
        counts.update(case.op for case in with_derived(written(family) or []))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    for op in sorted(op.name for op in OPS.values() if op.family == family.name):
        cases = counts[op] if problem is None else None
        having = tuple(name for name, ops in implemented.items() if op in ops)
        yield Row(op, family.name, has_text, cases, problem, family.distribution, having)


def _meant(name: str, every: Sequence[Row]) -> list[Row]:
    named = [row for row in every if fnmatchcase(row.op, name)]
    functions = {family_of_name(function) for function in repdl.ops.__all__ if fnmatchcase(function, name)}
    return named or [row for row in every if row.family in functions]


def table_of(rows: Sequence[Row]) -> str:
    """As a table, a column a backend."""
    names = usable()
    cells = [("op", "contract text", "cases", "from", *names)]
    for row in rows:
        count = row.problem or str(row.cases or "none")
        having = ("yes" if name in row.backends else "-" for name in names)
        cells.append((row.op, row.family if row.has_text else "none", count, row.distribution, *having))
    return table(cells)


def as_shape(rows: Sequence[Row]) -> dict[str, Any]:
    """For `repdl ops --json`."""
    return {"backends": usable(), "ops": [asdict(row) for row in rows]}


__all__ = ["Row", "as_shape", "family_of_name", "listed", "table_of", "usable"]
