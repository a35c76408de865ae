"""Write the golden bits of the reference backend: `contract/v1/<family>.json`.

    python tools/golden.py            # adds the digests of new cases
    python tools/golden.py --check    # fails if one is missing or differs

A digest that is there already is never changed: bits do not change within a contract
version. To withdraw a case, delete its line by hand and say so under *Bits* in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import repdl
from repdl.registry import OPS, get_backend, implementations
from repdl.testing import CONTRACTS, cases, hex_digest, run

FOLDER = Path(__file__).parents[1] / "packages/repdl-core/src/repdl/contract/v1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("families", nargs="*", help="default: all")
    args = parser.parse_args()
    reference = implementations(get_backend("reference"))
    wrong = 0
    for family in args.families or sorted({op.family for op in OPS.values()}):
        path = FOLDER / f"{family}.json"
        recorded = json.loads(path.read_text()) if path.exists() else {}
        fresh = {
            str(case): {contract: hex_digest(run(case, contract, reference[case.op])) for contract in CONTRACTS}
            for case in cases(family)
        }
        for name, digests in fresh.items():
            if recorded.get(name, digests) != digests or (args.check and name not in recorded):
                wrong += 1
                print(f"{name}: {'differs from' if name in recorded else 'is not among'} the golden bits")
        if not args.check and not wrong:
            path.write_text(json.dumps({**fresh, **recorded}, indent=1, sort_keys=True) + "\n")
            print(f"{family}: {len(fresh)} cases, {len(fresh.keys() - recorded.keys())} new")
    print(f"repdl {repdl.__version__}: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
