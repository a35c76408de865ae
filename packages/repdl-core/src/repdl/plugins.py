"""Ops of other projects: the entry-point group `repdl.ops`.

An entry point names a public function, which `repdl.ops` then has too; loading it imports
the module that defines the op. A plug-in that fails is listed with its error and harms nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
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
