"""Two states beside each other: the paths where they differ, in the order in which states are saved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from repdl.checkpoint.folder import checkpoints
from repdl.checkpoint.format import Header, read_header
from repdl.checkpoint.structure import JSON, children, is_leaf, join, shown
from repdl.errors import CheckpointError


@dataclass(frozen=True)
class Difference:
    """A path where two checkpoints differ, and what each has there; None is nothing."""

    path: str
    a: str | None
    b: str | None

    def __str__(self) -> str:
        return f"{self.path}: {self.a or 'nothing'} and {self.b or 'nothing'}"


@dataclass(frozen=True)
class Tree:
    """The structure of a state, and dtype, shape and digest of its tensors by name."""

    json: JSON
    tensors: Mapping[str, str]

    @classmethod
    def of(cls, header: Header) -> Tree:
        """The states of a file."""
        return cls(header.tree, {e.name: f"{e.dtype}{list(e.shape)} {e.digest}" for e in header.tensors.values()})


def differences(a: Tree, b: Tree) -> Iterator[Difference]:
    """Every path where two states differ, outermost first."""
    yield from _differences("", a, a.json, b, b.json)


def _differences(path: str, a: Tree, mine: JSON, b: Tree, other: JSON) -> Iterator[Difference]:
    if is_leaf(mine) or is_leaf(other) or _kind(mine) != _kind(other):
        said = _said(a, mine), _said(b, other)
        if said[0] != said[1] or is_leaf(mine) != is_leaf(other):
            yield Difference(path, *said)
        return
    of_a, of_b = dict(children(mine)), dict(children(other))
    for key in [*of_a, *(key for key in of_b if key not in of_a)]:
        inside = join(path, key)
        if key in of_a and key in of_b:
            yield from _differences(inside, a, of_a[key], b, of_b[key])
        elif key in of_a:
            yield Difference(inside, _said(a, of_a[key]), None)
        else:
            yield Difference(inside, None, _said(b, of_b[key]))


def _kind(tree: JSON) -> str:
    return "list" if type(tree) is list else next(iter(tree))


def _said(tree: Tree, json: JSON) -> str:
    if not is_leaf(json):
        return f"a {_kind(json)} of {len(children(json))}"
    if type(json) is dict and next(iter(json)) in ("tensor", "ndarray"):
        ((kind, name),) = json.items()
        return f"{'' if kind == 'tensor' else 'array '}{tree.tensors[name]}"
    return f"'{json}'" if type(json) is str else shown(json)


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> list[Difference]:
    """The paths where the states of two checkpoints differ, in the order in which states are saved.

    Of two folders, those of the first checkpoint that differs, of the names that both have, by the numbers in them; a
    path begins with the name then. Headers are read, and no tensors: they have the digests of these.

    Raises:
        CheckpointError: if there is no checkpoint, or its header is damaged, or the folders have no name in common.
    """
    one, other = Path(a), Path(b)
    if one.is_dir() and other.is_dir():
        return _first_of_folders(one, other)
    headers = read_header(one), read_header(other)
    found = [*differences(Tree.of(headers[0]), Tree.of(headers[1]))]
    contracts = [header.facts["contract"] for header in headers]
    return [*([Difference("contract", *contracts)] if contracts[0] != contracts[1] else []), *found]


def _first_of_folders(a: Path, b: Path) -> list[Difference]:
    names = [path.name for path in checkpoints(a) if (b / path.name).is_file()]
    if not names:
        raise CheckpointError(f"diff: {a} and {b} have no checkpoints of the same name, expected those of two runs")
    for name in names:
        found = diff(a / name, b / name)
        if found:
            return [Difference(f"{name}: {each.path}", each.a, each.b) for each in found]
    return []


__all__ = ["Difference", "Tree", "diff", "differences"]
