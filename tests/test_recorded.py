"""A session is on record for the very sources that it passed with, and for no others."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("recorded", Path(__file__).parents[1] / "tools/recorded.py")
assert SPEC is not None and SPEC.loader is not None
recorded = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(recorded)
SESSIONS = [*recorded.SOURCES]
SEEN = {
    "audit-cuda": [
        *("native/reduce/sum.cu", "native/base/device.hpp", "CMakeLists.txt", "pyproject.toml", "audit/sass.py"),
        *("contract/include/repdl/contract/arithmetic.hpp", "contract/cmake/repdl_contractConfig.cmake"),
    ],
    "parity-cuda-emulated": [
        *("native/reduce/sum.cu", "contract/include/repdl/contract/arithmetic.hpp", "emulation/fiber.hpp"),
        *("src/repdl_cuda/backends.py", "tests/test_parity.py", "tests/native/divide.cu"),
    ],
}
OTHERS = [
    *(f"packages/repdl-core/src/repdl/{name}" for name in ("ops/reduction/sum.py", "reference/reduction/sum.py")),
    *(
        f"packages/repdl-core/src/repdl/{name}"
        for name in ("tensors/values.py", "testing/parity.py", "cli/__init__.py")
    ),
    *("packages/repdl-nn/src/repdl/nn/__init__.py", "packages/repdl-core/tests/registry/test_coverage.py"),
    *("tests/test_mnist.py", "examples/mnist_training.py", "pytest.ini", "constraints.txt", "noxfile.py"),
]


def _places(session: str) -> list[str]:
    ours = [f"packages/repdl-cuda/{name}" for name in SEEN[session]]
    return ours + (OTHERS if "parity" in session else [])


@pytest.fixture(params=SESSIONS)
def session(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copied(session: str, tmp_path: Path) -> Path:
    for name in recorded.SOURCES[session]:
        source, copy = recorded.ROOT / name, tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    return tmp_path


def test_recorded__a_copy_has_the_same_digest(session: str, copied: Path) -> None:
    sources = recorded.SOURCES[session]
    assert recorded.digest(sources, copied) == recorded.digest(sources)


def test_recorded__one_character_is_seen(session: str, copied: Path) -> None:
    before = recorded.digest(recorded.SOURCES[session], copied)
    for name in _places(session):
        text = (copied / name).read_text()
        (copied / name).write_text(text + " ")
        assert recorded.digest(recorded.SOURCES[session], copied) != before, name
        (copied / name).write_text(text)
    assert recorded.digest(recorded.SOURCES[session], copied) == before


def test_recorded__a_file_of_another_name_is_seen(session: str, copied: Path) -> None:
    before = recorded.digest(recorded.SOURCES[session], copied)
    file = copied / "packages/repdl-cuda/native/reduce/sum.cu"
    file.rename(file.with_name("sums.cu"))
    assert recorded.digest(recorded.SOURCES[session], copied) != before


def test_recorded__what_tools_write_beside_is_not_seen(session: str, copied: Path) -> None:
    before = recorded.digest(recorded.SOURCES[session], copied)
    folder = copied / "packages/repdl-cuda/native/__pycache__"
    folder.mkdir()
    (folder / "sass.cpython-311.pyc").write_bytes(b"0")
    (folder.parent / ".mypy_cache").mkdir()
    (folder.parent / ".mypy_cache/missing_stubs.json").write_text("[]")
    assert recorded.digest(recorded.SOURCES[session], copied) == before


def test_recorded__says_what_is_on_record(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded, "RECORD", tmp_path / "recorded.json")
    recorded.RECORD.write_text(json.dumps(dict.fromkeys(SESSIONS, "0")))
    now = recorded.digest(recorded.SOURCES[session])
    written = f"{now} on record"
    for arguments, said in (
        ([], f"{now} not on record"),
        (["--write", "0" * 64], f"{session}: its sources have changed since it began, and are not put on record"),
        ([], f"{now} not on record"),
        (["--write", now], written),
        ([], written),
    ):
        monkeypatch.setattr(sys, "argv", ["recorded.py", session, *arguments])
        recorded.main()
        assert capsys.readouterr().out.strip() == said
    (other,) = {*SESSIONS} - {session}
    assert json.loads(recorded.RECORD.read_text())[other] == "0"
