"""Recording golden bits: the digests of what the reference gives for the cases of a family."""

from __future__ import annotations

import json
from pathlib import Path

from repdl.backend import get_backend
from repdl.families import Family
from repdl.registry import implementations
from repdl.testing.cases import cases, written
from repdl.testing.compare import hex_digest
from repdl.testing.run import CONTRACTS, run


def record(family: Family, folder: Path, check: bool = False) -> int:
    """Add the digests of new cases to `folder/<family>.json`; returns how many are wrong,
    1 too for a family without cases, or with an op that the reference lacks.

    A digest that is there already is never changed: bits do not change within a contract
    version. Nothing is written if one differs. With `check` nothing is written at all, and a
    missing one is wrong too.
    """
    if written(family) is None:
        print(f"{family.name}: no cases")
        return 1
    reference = implementations(get_backend("reference"))
    lacking = sorted({case.op for case in cases(family.name)} - reference.keys())
    if lacking:
        print(f"{family.name}: {', '.join(lacking)} not implemented by reference, whose bits are the golden ones")
        return 1
    path = folder / f"{family.name}.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    fresh = {
        str(case): {contract: hex_digest(run(case, contract, reference[case.op])) for contract in CONTRACTS}
        for case in cases(family.name)
    }
    wrong = 0
    for name, digests in fresh.items():
        if recorded.get(name, digests) != digests or (check and name not in recorded):
            wrong += 1
            print(f"{name}: {'differs from' if name in recorded else 'is not among'} the golden bits")
    if not check and not wrong:
        text = json.dumps({**fresh, **recorded}, indent=1, sort_keys=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
        print(f"{family.name}: {len(fresh)} cases, {len(fresh.keys() - recorded.keys())} new")
    return wrong
