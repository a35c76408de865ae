"""Two states beside each other: the paths where they differ, in the order in which states are saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from repdl.checkpoint.format import Header
from repdl.checkpoint.structure import JSON, children, is_leaf, join, shown


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


__all__ = ["Difference", "Tree", "differences"]
