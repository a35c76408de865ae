"""Fails, naming the kernels, if what nvcc built computes otherwise than the contract does.

    python -m audit FILE...               built modules, objects, cubins: their PTX and SASS
    python -m audit --installed           the module of the repdl-cuda that is installed here
    python -m audit --source FOLDER [-I INCLUDE]...   .cu files: no product that a compiler could fuse
    python -m audit FILE... --counts CSV  also writes of each kernel for sm_90: length, loads at once, doubles

Run it in packages/repdl-cuda, with nvcc, cuobjdump and nvdisasm on the path or from PyPI.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from audit import counts, ptx, sass, toolkit


def audit_file(path: Path) -> tuple[str, list[str]]:
    """What was seen, and the violations, of a file with machine code and PTX in it."""
    text, code = toolkit.run("cuobjdump", "-ptx", path), toolkit.run("cuobjdump", "-sass", path)
    kernels = [len({kernel for kernel, _, _ in ptx.instructions(text)}), sum(1 for _ in sass.functions(code))]
    found = ptx.violations(text) + sass.violations(code)
    if path.suffix == ".so" and 0 in kernels:
        found.append(f"{path.name}: no kernels in PTX or SASS, nothing was audited")
    return f"{path.name}: {kernels[0]} kernels in PTX, {kernels[1]} in SASS", found


def audit_source(path: Path, includes: list[Path]) -> tuple[str, list[str]]:
    """The same for a source file."""
    contracted, strict = (toolkit.ptx_of(path, f"-fmad={fmad}", includes=includes) for fmad in ("true", "false"))
    count = sum(1 for _ in ptx.instructions(strict))
    return f"{path.name}: {count} instructions", ptx.plain_products(contracted, strict)


def installed() -> list[Path]:
    """Where this environment has the kernels; the package itself is not imported, which needs torch."""
    package = find_spec("repdl_cuda")
    folders = package.submodule_search_locations if package else None
    found = [module for folder in folders or () for module in Path(folder).glob("_cuda.*.so")]
    if not found:
        sys.exit("audit: repdl_cuda with kernels for GPUs is not installed here")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m audit", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--installed", action="store_true", help="the module of the repdl-cuda of this environment")
    parser.add_argument("--source", type=Path, help="a folder of .cu files, or one of them")
    parser.add_argument("-I", dest="includes", action="append", type=Path, default=[])
    parser.add_argument("--counts", type=Path, help="where to write counts of the kernels for sm_90 (audit/counts.py)")
    chosen = parser.parse_args()
    if chosen.installed:
        chosen.files += installed()
    sources = sorted(chosen.source.rglob("*.cu")) if chosen.source and chosen.source.is_dir() else [chosen.source]
    with ThreadPoolExecutor(2) as pool:
        reports = [*pool.map(audit_file, chosen.files)]
        if chosen.source:
            reports += pool.map(lambda path: audit_source(path, chosen.includes), sources)
    if chosen.counts:
        code = "".join(toolkit.run("cuobjdump", "-sass", "-arch", "sm_90", path) for path in chosen.files)
        chosen.counts.write_text(counts.table(code))
    for seen, _ in reports:
        print(seen)
    found = [violation for _, violations in reports for violation in violations]
    print("\n".join(found) if found else f"audit: {len(reports)} files, no violation")
    return 1 if found or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
