"""Ops of other projects: the entry-point group `repdl.ops`, and which packages bring ops or backends.

An entry point names a public function, which `repdl.ops` then has too; loading it imports
the module that defines the op. A plug-in that fails is listed with its error and harms nobody.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

GROUP = "repdl.ops"


@dataclass(frozen=True)
class Plugin:
    """An entry point of the group. `error` is why it could not be loaded, or None."""

    name: str
    distribution: str
    version: str
    error: str | None

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})"


@cache
def plugins() -> tuple[Plugin, ...]:
    """Every installed plug-in, loaded: its ops are in the registry from then on."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return tuple(_loaded(point) for point in points)


@cache
def packages() -> frozenset[str]:
    """The import packages that bring ops or backends, by their entry points: libraries, and not the user's program."""
    points = (*entry_points(group=GROUP), *entry_points(group="repdl.backends"))
    return frozenset(point.value.partition(":")[0].partition(".")[0] for point in points)


@cache
def folders() -> tuple[str, ...]:
    """Where the files of these packages are, each ending with a separator."""
    specs = [find_spec(name) for name in sorted(packages())]
    found = [folder for spec in specs if spec is not None for folder in spec.submodule_search_locations or ()]
    return tuple(os.path.join(folder, "") for folder in found)


def _loaded(point: EntryPoint) -> Plugin:
    distribution, version = (point.dist.name, point.dist.version) if point.dist else ("?", "?")
    error = None
    try:
        point.load()
    except Exception as reason:
        error = f"{type(reason).__name__}: {reason}"
    return Plugin(point.name, distribution, version, error)


def load(name: str) -> Any:
    """The function that an entry point of that name brings.

    Raises:
        AttributeError: if there is none. One that fails to load raises its own error.
    """
    if not name.startswith("_"):
        for point in entry_points(group=GROUP, name=name):
            return point.load()
    raise AttributeError(f"module 'repdl.ops' has no op {name!r}")
