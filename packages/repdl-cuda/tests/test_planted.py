"""Tests of the tests: mistakes that a kernel writer could make, planted one at a time, are each caught.

By other bits, by an error of the emulated machine, by ThreadSanitizer or by AddressSanitizer.
A product that is not fused as written is one for the audit too (audit/tests).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
PROGRAMS = PACKAGE / "tests/native"
SEEDS = (0, 1, 2)
OPS = ("sum_rows", "sum_columns", "sum_blocks")
SAYS = {"bits": "wrong: ", "error": "error: emulation", "thread": "data race", "address": "heap-buffer-overflow"}
"""What a program prints that finds a mistake so."""


@dataclass(frozen=True)
class Bug:
    file: str
    edits: dict[str, str]
    """Text, of which there is one in the file -> what is planted in its place."""
    caught: str
    """The ways that find it, each by itself; the sanitizers by name."""


TILE_THERE = "    __syncthreads();  // the tile is there\n"
TILE_READ = "    __syncthreads();  // the tile has been read\n"
PRODUCT = "sum = repdl::fma(a[row * k + first + i], shared_b[i], sum)"
SHUFFLE = "const float neighbour = __shfl_down_sync(0xffffffffu, sum, 1)"
PADDED = {
    "if (me < count) __pipeline_memcpy_async(&shared_b[me], &b[first + me], sizeof(float))": (
        "__pipeline_memcpy_async(&shared_b[me], &b[me < count ? first + me : 0], 4, me < count ? 0 : 4)"
    ),
    "i < count; ++i": "i < tile; ++i",
    "a[row * k + first + i]": "i < count ? a[row * k + first + i] : 0.0f",
}

BUGS = {
    "missing_barrier": Bug("sum.cu", {"    __syncthreads();\n    for (int lane": "    for (int lane"}, "bits thread"),
    "wrong_index": Bug("sum.hpp", {"      high += f(i + 32);": "      high += f(i + 31);"}, "bits"),
    "wrong_column": Bug("sum.cu", {"lanes[lane + half][c];": "lanes[lane + half][c ^ 1];"}, "bits"),
    "one_element_too_many": Bug("sum.hpp", {"if (i + 32 < n) high": "if (i + 31 < n) high"}, "bits address"),
    "wrong_mask": Bug("sum.hpp", {"whole_warp = 0xffffffffu": "whole_warp = 0x0000ffffu"}, "error"),
    "early_return": Bug("sum.hpp", {"  for (int half": "  if (me >= n) return sum;\n  for (int half"}, "error"),
    "wrong_subtree": Bug("sum.cu", {"task % groups * join_width": "task % groups * (join_width - 1)"}, "bits"),
    "no_wait_for_copies": Bug("chain.cu", {"    __pipeline_wait_prior(0);\n": ""}, "bits"),
    "waits_for_a_group_less": Bug("chain.cu", {"__pipeline_wait_prior(0)": "__pipeline_wait_prior(1)"}, "bits"),
    "no_barrier_after_copies": Bug("chain.cu", {TILE_THERE: ""}, "bits thread"),
    "no_barrier_before_copies": Bug("chain.cu", {TILE_READ: ""}, "bits thread"),
    "barrier_for_some": Bug("chain.cu", {TILE_THERE: "    if (me < count) __syncthreads();\n"}, "error"),
    "shuffle_for_some": Bug("chain.cu", {SHUFFLE: f"float neighbour = 0;\n  if (me == 0) {SHUFFLE[12:]}"}, "error"),
    "padded_tail": Bug("chain.cu", PADDED, "bits"),
    "product_not_fused": Bug("chain.cu", {PRODUCT: "sum = a[row * k + first + i] * shared_b[i] + sum"}, "bits"),
    "tile_too_small": Bug("chain.cu", {"float b[tile];": "float b[tile - 1];"}, "address"),
}


def sources(folder: Path, bug: Bug | None, chain: bool) -> list[Path]:
    """The sources of a program, in `folder` where they are edited."""
    if chain:
        shutil.copy(PROGRAMS / "chain.cu", folder)
    else:
        shutil.copytree(PACKAGE / "native", folder, dirs_exist_ok=True)
    if bug:
        file = folder / bug.file
        text = file.read_text()
        for old, new in bug.edits.items():
            assert text.count(old) == 1, f"{bug.file} has {text.count(old)} of {old!r}: adapt the planted bug"
            text = text.replace(old, new)
        file.write_text(text)
    return [folder / "chain.cu"] if chain else [PROGRAMS / "ops.cu", folder / "sum.cu"]


def outputs(program: Path, chain: bool) -> list[str]:
    """What it prints with each seed: nothing if all is right."""
    printed = []
    for seed in SEEDS:
        for case in ("chain",) if chain else OPS:
            environment = os.environ | {"REPDL_EMULATION_SEED": str(seed)}
            ran = subprocess.run([program, case], env=environment, capture_output=True, text=True, check=False)
            assert (ran.returncode == 0) == (ran.stdout + ran.stderr == ""), (ran.returncode, ran.stdout, ran.stderr)
            printed.append(ran.stdout + ran.stderr)
    return printed


@pytest.mark.parametrize("sanitizer", ["", "address", "thread"])
@pytest.mark.parametrize("chain", [True, False], ids=["chain", "ops"])
def test_planted__nothing(chain: bool, sanitizer: str, build, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    program = build(*sources(tmp_path, None, chain), sanitizer=sanitizer)
    assert not any(outputs(program, chain))


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, bug in BUGS.items() for way in bug.caught.split()])
def test_planted__bug(name: str, way: str, build, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    bug = BUGS[name]
    chain = bug.file == "chain.cu"
    sanitizer = way if way in ("address", "thread") else ""
    printed = outputs(build(*sources(tmp_path, bug, chain), sanitizer=sanitizer, first=(tmp_path,)), chain)
    assert any(SAYS[way] in text for text in printed), printed
