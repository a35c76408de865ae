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
    """A module by its name; None for what is no module."""
    if name.split(".")[0] != "repdl":
        return None
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def missing(source: str) -> Iterator[str]:
    """Names that a source takes from a module of RepDL, and that the module lacks."""
    tree = ast.parse(source)
    modules: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and (parent := module(node.module)) is not None:
            for alias in node.names:
                there = hasattr(parent, alias.name)
                child = getattr(parent, alias.name) if there else module(f"{node.module}.{alias.name}")
                if not there and child is None:
                    yield f"{node.module}.{alias.name}"
                if isinstance(child, ModuleType):
                    modules[alias.asname or alias.name] = child
    assigned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assigned |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            owner = modules.get(node.value.id) if node.value.id not in assigned else None
            if owner is not None and not hasattr(owner, node.attr):
                yield f"{owner.__name__}.{node.attr}"


def test_names__of_modules() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in missing(path.read_text())]
    assert not wrong, "\n".join(wrong)


def test_names__control() -> None:
    source = "from repdl.testing import opinfo, nosuch\nopinfo.samples, opinfo._absent"
    assert [*missing(source)] == ["repdl.testing.nosuch", "repdl.testing.opinfo._absent"]
