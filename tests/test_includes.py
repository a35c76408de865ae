"""Folders of the native code include folders below them only, and CUDA files have no name that nvcc makes."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"
CONTRACT = PACKAGES / "repdl-core/src/repdl_contract/include"
NATIVE = {package: PACKAGES / package / "native" for package in ("repdl-cpu", "repdl-cuda")}
LAYERS = {
    CONTRACT / "repdl": "contract | exact/pairs exact/big exact/double_double | exact | shape random step pointwise | "
    "cell python",
    NATIVE["repdl-cpu"]: "base | simd | exact | reduce gemm random step | pointwise cell norm loss pool conv | "
    "attention linalg recurrent",
    NATIVE["repdl-cuda"]: "base | gemm random step | reduce | pointwise norm loss pool conv",
}
"""The folders of a tree, from the bottom up: a folder includes itself and what stands in the groups before it."""
INCLUDE = re.compile(r'^#include "(.+)/[^/"]+"', re.MULTILINE)


def test_includes__layers_point_down() -> None:
    wrong, seen = [], 0
    for root, text in LAYERS.items():
        height = {folder: level for level, group in enumerate(text.split("|")) for folder in group.split()}
        files = [path for path in root.rglob("*") if path.suffix in (".hpp", ".cpp", ".cu") and path.parent != root]
        assert {path.parent.relative_to(root).as_posix() for path in files} == height.keys()
        for path in files:
            folder = path.parent.relative_to(root).as_posix()
            for included in INCLUDE.findall(path.read_text()):
                other = included.removeprefix("repdl/") if root.name == "repdl" else included
                if other in height and other != folder:
                    seen += 1
                    if height[other] >= height[folder]:
                        wrong.append(f"{path.relative_to(PACKAGES)} includes {other}")
    assert seen > 100 and not wrong, wrong


def test_includes__no_name_that_nvcc_makes_of_a_folder() -> None:
    """It names an anonymous namespace after the file's path and a process: no two builds would have the same bytes."""
    files = [path for path in NATIVE["repdl-cuda"].rglob("*") if path.is_file()]
    for path in files:
        assert not re.search(r"namespace \{|__FILE__|^static __", path.read_text(), re.MULTILINE), path
        for name in re.findall(r"^inline namespace (\w+) \{$", path.read_text(), re.MULTILINE):
            assert name == f"{path.stem}_{path.suffix[1:]}"
    assert sum("inline namespace" in path.read_text() for path in files) > 20
