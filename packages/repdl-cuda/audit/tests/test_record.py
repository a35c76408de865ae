"""An audit is on record for the very sources that it read, and for no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from audit import record

PACKAGE = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in record.SOURCES:
        source, copy = PACKAGE / name, tmp_path / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    return tmp_path


def test_record__a_copy_has_the_same_digest(package):
    assert record.digest(package) == record.digest(PACKAGE)


@pytest.mark.parametrize(
    "name",
    [
        *("native/reduce/sum.cu", "native/base/device.hpp", "CMakeLists.txt", "pyproject.toml", "audit/sass.py"),
        *("contract/include/repdl/contract/arithmetic.hpp", "contract/cmake/repdl_contractConfig.cmake"),
    ],
)
def test_record__one_character_is_seen(package, name):
    before = record.digest(package)
    (package / name).write_text((package / name).read_text() + " ")
    assert record.digest(package) != before


def test_record__a_file_of_another_name_is_seen(package):
    before = record.digest(package)
    (package / "native/reduce/sum.cu").rename(package / "native/reduce/sums.cu")
    assert record.digest(package) != before


def test_record__what_python_writes_beside_is_not_seen(package):
    before = record.digest(package)
    (package / "audit/__pycache__").mkdir(exist_ok=True)
    (package / "audit/__pycache__/sass.cpython-311.pyc").write_bytes(b"0")
    assert record.digest(package) == before
