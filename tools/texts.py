"""Write what the rows of ops say (`repdl.rows`) into the pages of the contract, `contract/v1/<family>.md`.

    python tools/texts.py            # writes what changed
    python tools/texts.py --check    # fails if a page is not as it would be written

A row whose text begins with a title is a page; the texts of others end the page of their family.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import repdl  # noqa: F401, registers the ops
from repdl.registry import OPS
from repdl.rows import ROWS

FOLDER = Path(__file__).parents[1] / "packages/repdl-core/src/repdl/contract/v1"
HEADING = "## Ops of one row\n"


def pages() -> dict[Path, str]:
    """Every page that rows are part of, as it should be."""
    found: dict[Path, str] = {}
    for family in sorted({op.family for op in OPS.values() if op.distribution == "repdl-core"}):
        texts = [ROWS[name].text for name in sorted(ROWS) if OPS[name].family == family]
        path = FOLDER / f"{family}.md"
        if any(text.startswith("# ") for text in texts):
            found[path] = "\n".join(texts)
        elif texts:
            written = path.read_text(encoding="utf-8").partition(f"\n{HEADING}")[0]
            found[path] = "\n".join([written, HEADING.rstrip(), *texts])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = {p: text for p, text in pages().items() if not p.is_file() or p.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        print(f"{path.name}: {'not as its rows say; run tools/texts.py' if args.check else 'written'}")
        if not args.check:
            path.write_text(text, encoding="utf-8")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
