"""Write the imports of packages whose names are those of their modules: a line for each module with an `__all__`.

    python tools/imports.py            # writes what changed
    python tools/imports.py --check    # fails if a line is missing, or has no module

It imports nothing of the packages, so that it can be run before they are whole.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "repdl.ops": "packages/repdl-core/src/repdl/ops",
    "repdl.ops.common": "packages/repdl-core/src/repdl/ops/common",
    "repdl.ops.declare": "packages/repdl-core/src/repdl/ops/declare",
    "repdl.nn.modules": "packages/repdl-nn/src/repdl/nn/modules",
    "repdl.optim": "packages/repdl-optim/src/repdl/optim",
}


def modules(folder: Path) -> list[str]:
    """The dotted names of public modules in a folder and those in it, which say what they export."""
    paths = [path for path in folder.rglob("*.py") if not path.name.startswith("_")]
    public = [path for path in paths if re.search(r"^__all__\b.* =", path.read_text(encoding="utf-8"), re.M)]
    return sorted(".".join(path.relative_to(folder).with_suffix("").parts) for path in public)


def imported(name: str, folder: Path) -> str:
    """The `__init__.py` of a package, as it should be."""
    page = (folder / "__init__.py").read_text(encoding="utf-8")
    block = re.compile(rf"(?:^from {re.escape(name)}\.[\w.]+ import \*\n)+", re.M)
    inner = tuple(f"{other}." for other in PACKAGES if other.startswith(f"{name}."))
    own = [module for module in modules(folder) if not f"{name}.{module}".startswith(inner)]
    lines = "".join(f"from {name}.{module} import *\n" for module in own)
    page, found = block.subn(lines, page)
    if found != 1:
        raise SystemExit(f"tools/imports.py: {found} blocks of imports in {folder / '__init__.py'}, expected 1")
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=Path, default=ROOT, help="default: this checkout")
    args = parser.parse_args()
    stale = False
    for name, path in PACKAGES.items():
        page, file = imported(name, args.root / path), args.root / path / "__init__.py"
        if page != file.read_text(encoding="utf-8"):
            stale = True
            print(f"{name}: {'not its modules; run tools/imports.py' if args.check else 'written'}")
            if not args.check:
                file.write_text(page, encoding="utf-8")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
