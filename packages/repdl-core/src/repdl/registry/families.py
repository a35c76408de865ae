"""Families of ops and their files, RepDL's own and other projects' alike.

A family's files lie in the import package of its ops, `repdl` or somebody else's:

    <package>/contract/v1/<family>.md      contract text
    <package>/contract/v1/<family>.json    golden bits
    <package>/testing/cases/<family>.py    cases: a list `CASES` of `repdl.testing.Case`; or in a folder there

Any of them may be absent in another project's package. `repdl.testing.cases` reads the cases. Ops with a
declaration (`repdl.registry.declaration`) have generated cases, so a family of such ops needs no file of cases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from repdl.registry import OPS, Op
from repdl.registry.plugins import plugins

GoldenBits = Mapping[str, dict[str, str]]
"""Case -> contract -> SHA-256."""


@dataclass(frozen=True)
class Family:
    """Ops that share one name of files."""

    name: str
    package: str
    distribution: str

    def text(self) -> str | None:
        """The contract text."""
        return _read(self.package, f"{self.name}.md")

    def golden(self) -> GoldenBits | None:
        """The recorded digests."""
        return _golden(self.package, self.name)


def families() -> dict[str, Family]:
    """Every family by name, RepDL's own first, then those of the plug-ins that are installed."""
    plugins()
    found = {op.family: _family(op) for op in OPS.values()}
    return dict(sorted(found.items(), key=lambda item: (item[1].package != "repdl", item[1].package, item[0])))


def family_of(op: str) -> Family:
    """The family of a registered op."""
    return _family(OPS[op])


def _family(op: Op) -> Family:
    return Family(op.family, op.overload.namespace, op.distribution)


def _read(package: str, name: str) -> str | None:
    try:
        path = files(package) / "contract" / "v1" / name
    except (ModuleNotFoundError, TypeError):  # no such package, or a module
        return None
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def _golden(package: str, family: str) -> GoldenBits | None:
    text = _read(package, f"{family}.json")
    return None if text is None else dict(json.loads(text))
