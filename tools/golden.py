"""Write the golden bits of RepDL's own ops: `contract/v1/<family>.json`.

    python tools/golden.py            # adds the digests of new cases
    python tools/golden.py --check    # fails if one is missing or differs

A digest that is there already is never changed: bits do not change within a contract
version. To withdraw a case, delete its line by hand and say so under *Bits* in CHANGELOG.md.
`repdl golden` does the same for other projects.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import repdl
from repdl.registry.families import families
from repdl.testing.record import record

FOLDER = Path(__file__).parents[1] / "packages/repdl-core/src/repdl/contract/v1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("families", nargs="*", help="default: all")
    args = parser.parse_args()
    known = families()
    ours = [name for name, family in known.items() if family.package == "repdl"]
    wrong = 0
    for name in args.families or ours:
        recorded = record(known[name], FOLDER, args.check)
        print("".join(f"{line}\n" for line in recorded.lines()), end="")
        wrong += recorded.failed
    print(f"repdl {repdl.__version__}: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
