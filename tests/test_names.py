"""What tests, examples, benchmarks and tools take from a module of RepDL is there, also where no test runs it here."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests", "examples", "benchmarks", "tools", *(f"packages/{p.name}/tests" for p in ROOT.glob("packages/*")))


def module(name: str) -> ModuleType | None:
    """A module of the package `repdl`; None for what is no module."""
    if name.split(".")[0] != "repdl":
        return None
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "repdl":
            raise
        return None


def found(owner: object, name: str) -> object | None:
    """What a module has by that name, or the module in its package; None if there is neither."""
    if hasattr(owner, name):
        return getattr(owner, name)
    return module(f"{owner.__name__}.{name}") if isinstance(owner, ModuleType) else None


def missing(source: str) -> Iterator[str]:
    """Names that a source takes from a module of RepDL, and that the module lacks."""
    tree = ast.parse(source)
    known: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "repdl":
            owner = module(node.module)
            for alias in node.names:
                value = None if owner is None else found(owner, alias.name)
                if value is None and not hasattr(owner, alias.name):
                    yield f"{node.module}.{alias.name}"
                known[alias.asname or alias.name] = value
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "repdl":
                    imported = module(alias.name)
                    if imported is None:
                        yield alias.name
                    known[alias.asname or "repdl"] = imported if alias.asname else module("repdl")
    assigned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assigned |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}

    def value(node: ast.expr) -> object | None:
        if isinstance(node, ast.Name):
            return None if node.id in assigned else known.get(node.id)
        owner = value(node.value) if isinstance(node, ast.Attribute) else None
        return found(owner, node.attr) if isinstance(owner, ModuleType) and isinstance(node, ast.Attribute) else None

    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = value(node.value)
            if isinstance(owner, ModuleType) and not hasattr(owner, node.attr) and found(owner, node.attr) is None:
                yield f"{owner.__name__}.{node.attr}"


def test_names__of_modules() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    names = ((path, name) for path in paths for name in missing(path.read_text()) if name != "repdl.nosuch")
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path, name in names]
    assert not wrong, "\n".join(wrong)


def test_names__control() -> None:
    sources = {
        "from repdl.testing import opinfo, nosuch\nopinfo.samples, opinfo._absent": [
            "testing.nosuch",
            "testing.opinfo._absent",
        ],
        "from repdl.nosuch import x": ["nosuch.x"],
        "import repdl.nosuch": ["nosuch"],
        "import repdl.testing.opinfo as o\no.nosuch, o.samples": ["testing.opinfo.nosuch"],
        "import repdl\nrepdl.receipts.nosuch, repdl.receipts.read": ["receipts.nosuch"],
        "from repdl import receipts\nreceipts.watching.nosuch": ["receipts.watching.nosuch"],
    }
    for source, names in sources.items():
        assert [*missing(source)] == [f"repdl.{name}" for name in names], source
