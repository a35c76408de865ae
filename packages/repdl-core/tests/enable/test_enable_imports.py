"""Changes of modules that are made when these are imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from repdl.overrides.imports import when_imported

NAME = "imported_by_this_test"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / f"{NAME}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield NAME
    sys.modules.pop(NAME, None)


def noted(log: list[str], name: str) -> Callable[[], AbstractContextManager[None]]:
    @contextmanager
    def change() -> Iterator[None]:
        assert sys.modules[NAME].value == 1  # its code has run
        log.append(f"{name} in")
        yield
        log.append(f"{name} out")

    return change


@pytest.mark.parametrize("before", [False, True], ids=["later", "before"])
def test_when_imported__several_changes_of_one_module(before: bool, module: str) -> None:
    log: list[str] = []
    if before:
        import_module(module)
    with when_imported(module, noted(log, "a")):
        with when_imported(module, noted(log, "b")):
            import_module(module)
            assert sorted(log) == ["a in", "b in"]
        assert log[2:] == ["b out"]
    assert log[3:] == ["a out"]


def test_when_imported__of_a_module_that_is_not(module: str) -> None:
    log: list[str] = []
    with when_imported(module, noted(log, "a")), when_imported(module, noted(log, "b")):
        pass
    assert not log and module not in sys.modules
    import_module(module)
    assert not log
