"""The modules of repdl-core import each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import repdl

ROOT = Path(repdl.__file__).parent
MODULES = {
    ".".join(("repdl", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0] not in ("nn", "optim")  # of other distributions, in place when these are
}


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports anywhere, for types alone and inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def test_imports__no_circle() -> None:
    assert {"repdl.registry", "repdl.ops.pointwise.unary", "repdl.testing.cases.linalg.matmul"} <= MODULES.keys()
    try:
        TopologicalSorter({m: set(imported(p)) & MODULES.keys() - {m} for m, p in MODULES.items()}).prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' <- '.join(error.args[1])}") from None
