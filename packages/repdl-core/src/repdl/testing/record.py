"""Recording golden bits: the digests of what the reference gives for the cases of a family."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from repdl.registry import implementations
from repdl.registry.backend import get_backend
from repdl.registry.families import Family
from repdl.testing.cases import cases, written
from repdl.testing.compare import hex_digest
from repdl.testing.run import CONTRACTS, run


@dataclass
class Recorded:
    """What came of a family.

    Args:
        family: its name.
        cases: how many cases it has.
        new: how many of them were not recorded before.
        wrong: case -> what is wrong, of those whose digests are not the recorded ones, or with `check` not recorded.
        written: whether the file was written.
        problem: why there is nothing to record; None if there is.
    """

    family: str
    cases: int = 0
    new: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    written: bool = False
    problem: str | None = None

    @property
    def failed(self) -> int:
        """How many are wrong, 1 if there is nothing to record."""
        return 1 if self.problem is not None else len(self.wrong)

    def lines(self) -> list[str]:
        """For a terminal."""
        if self.problem is not None:
            return [f"{self.family}: {self.problem}"]
        summary = [f"{self.family}: {self.cases} cases, {self.new} new"] if self.written else []
        return [*(f"{case}: {how}" for case, how in self.wrong.items()), *summary]


def record(family: Family, folder: Path, check: bool = False) -> Recorded:
    """Add the digests of new cases to `folder/<family>.json`.

    A digest that is there already is never changed: bits do not change within a contract
    version. Nothing is written if one differs. With `check` nothing is written at all, and a
    missing one is wrong too. A family without cases, or with an op that the reference lacks, is a problem.
    """
    if written(family) is None:
        return Recorded(family.name, problem="no cases")
    reference = implementations(get_backend("reference"))
    lacking = sorted({case.op for case in cases(family.name)} - reference.keys())
    if lacking:
        says = f"{', '.join(lacking)} not implemented by reference, whose bits are the golden ones"
        return Recorded(family.name, problem=says)
    path = folder / f"{family.name}.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    fresh = {
        str(case): {contract: hex_digest(run(case, contract, reference[case.op])) for contract in CONTRACTS}
        for case in cases(family.name)
    }
    found = Recorded(family.name, len(fresh), len(fresh.keys() - recorded.keys()))
    for name, digests in fresh.items():
        if recorded.get(name, digests) != digests or (check and name not in recorded):
            found.wrong[name] = f"{'differs from' if name in recorded else 'is not among'} the golden bits"
    if not check and not found.wrong:
        text = json.dumps({**fresh, **recorded}, indent=1, sort_keys=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
        found.written = True
    return found
