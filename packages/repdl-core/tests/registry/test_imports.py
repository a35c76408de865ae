"""The modules of repdl-core import each other in one direction, and so do its packages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import repdl

ROOT = Path(repdl.__file__).parent
MODULES = {
    ".".join(("repdl", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0] not in ("nn", "optim")  # of other distributions, in place when these are
}


@cache
def imported(path: Path) -> list[str]:
    """The modules that a file imports anywhere, for types alone and inside of functions too."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[str]:
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
    assert {"repdl.registry.define", "repdl.ops.pointwise.unary", "repdl.testing.cases.linalg.matmul"} <= MODULES.keys()
    try:
        TopologicalSorter({m: set(imported(p)) & MODULES.keys() - {m} for m, p in MODULES.items()}).prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' <- '.join(error.args[1])}") from None


LAYERS = """
errors dynamo
settings dtypes tensors
contract
callcache
registry
generators
ops
random reference digest
testing
distributed
utils
audit
overrides
compiling
checkpoint launcher records
receipts
extend cli
__main__
"""
"""The packages of `repdl`, from the bottom up: each imports what stands in the lines above it. `overrides/switch.py`
loads `compiling` by name when `enable()` needs it, since that imports all of Dynamo."""


def test_imports__layers_point_down() -> None:
    height = {room: level for level, line in enumerate(LAYERS.strip().splitlines()) for room in line.split()}
    rooms = {module.split(".")[1] for module in MODULES if module != "repdl"}
    assert rooms == height.keys(), rooms ^ height.keys()
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        if module != "repdl"
        for other in imported(path)
        if other.startswith("repdl.") and other.split(".")[1] not in ("nn", "optim", module.split(".")[1])
        if height[other.split(".")[1]] >= height[module.split(".")[1]]
    ]
    assert not wrong, wrong


def test_imports__few_loose_modules() -> None:
    assert len(list(ROOT.glob("*.py"))) <= 8
