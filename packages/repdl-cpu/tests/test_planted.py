"""Tests of the tests: mistakes that a kernel writer could make, planted one at a time, are each caught.

Each is a replacement of text in a copy of native/; what it touches is compiled into a module that
replaces the installed one, and a part of the suite must fail. Here one of them, and that every text
is still there; `nox -s mutants`, which sets REPDL_CPU_PLANTED=all, runs all, and without a mistake too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bug import BEST, TESTS, Bug
from kernel_bugs import BUGS

from repdl.testing.planted import plant

NATIVE = TESTS.parent / "native"
INCLUDE = TESTS.parent / "contract/include"
CONVOLUTIONS = ["conv2d", "conv2d_grad_input", "conv2d_grad_weight", "micro_kernel"]
UNITS = {
    "matmul": ["matmul", "micro_kernel"], "conv2d": CONVOLUTIONS, "double": ["gemm_double", "conv2d_double"], "norm_double": ["norm_double"],
    "attention": ["attention", "attention_backward", "micro_kernel"], "recurrent": ["recurrent", "recurrent_backward", "matmul", "micro_kernel"],
    "interpolate": ["nearest", "resample"],
    "linalg": ["cholesky", "lu_factor", "qr", "solve_triangular"], "index_sum": ["index_sum", "index_amax", "index_prod", "bag_sum"], "norm": ["row_distances"], "sum": ["sum", "sum_of_squares"], "ctc_loss": ["ctc_states"],
    "random": ["draw", "normal", "permutation", "poisson"], "elementwise": ["pointwise"], "activation": ["pointwise"], "losses": ["pointwise"],
    **{f"{name}_step": ["step"] for name in ("adadelta", "adagrad", "adam", "adamax", "asgd", "nadam", "radam", "rprop", "sgd")},
}  # fmt: skip
"""Family -> the translation units of its float kernels, if they are not one of its name."""
NOT_KERNELS = {
    "base/environment.hpp",
    "base/isas.hpp",
    "base/machine.cpp",
    "gemm/micro_kernel.hpp",
    "base/module.cpp",
    "base/prefetch.hpp",
    "base/routes.hpp",
    "base/threads.hpp",
    "base/tuned.hpp",
    "gemm/product.hpp",
}
"""What has no result of its own: declarations, the module, prefetches."""

SAMPLE = ("skinny_gemm_nan",)
ALL = os.environ.get("REPDL_CPU_PLANTED") == "all"
HERE = [name for name, bug in BUGS.items() if bug.only in ("", BEST)]
CHOSEN = HERE if ALL else [name for name in SAMPLE if name in HERE]


def with_bug(bug: Bug) -> str:
    """The text of the bug's file, with the bug."""
    shared = bug.file.startswith("include/")
    text = (INCLUDE.parent if shared else NATIVE) / bug.file
    return plant(text.read_text(), bug.edits, bug.file)


def copy_with(bug: Bug, folder: Path) -> None:
    """A copy of native/ in `folder`, with the bug."""
    shutil.copytree(NATIVE, folder, dirs_exist_ok=True)
    shutil.copytree(INCLUDE, folder / "include", dirs_exist_ok=True)
    (folder / bug.file).write_text(with_bug(bug))


def outcome(tests: list[str], module: Path, sources: Path = NATIVE) -> subprocess.CompletedProcess[str]:
    """pytest on some tests, with the functions of another module, and its sources where tests compile some."""
    paths = {"REPDL_CPU_TEST_MODULE": str(module), "REPDL_CPU_TEST_NATIVE": str(sources)}
    environment = os.environ | paths | {"PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=TESTS)


def make(build: Callable[..., Path], family: str, sources: Path, folder: Path, small: bool = False) -> Path:
    options = ["-DREPDL_SMALL_SIZES"] if small else []
    return build(folder, sources, [*UNITS.get(family, [family]), "sum_block", "threads"], options)


def test_planted__every_kernel_file_has_one() -> None:
    names = {str(path.relative_to(NATIVE)) for path in NATIVE.glob("*/*")}
    assert names - {bug.file for bug in BUGS.values()} - NOT_KERNELS == set()
    assert len(BUGS) >= 60 and all(BUGS[name] for name in SAMPLE)


def test_planted__texts_are_there() -> None:
    for bug in BUGS.values():
        with_bug(bug)


@pytest.mark.parametrize("name", CHOSEN)
def test_planted__bug(name: str, build: Callable[..., Path], tmp_path: Path) -> None:
    bug = BUGS[name]
    copy_with(bug, tmp_path / "native")
    (tmp_path / "module").mkdir()
    module = make(build, bug.family, tmp_path / "native", tmp_path / "module", bug.small)
    done = outcome(bug.tests, module, tmp_path / "native")
    # 1: a test failed. Below 0: the bug killed the process. Other numbers are pytest's own errors.
    assert done.returncode == 1 or done.returncode < 0, (
        f"not caught: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    )
    caught = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    print(f"{name}: {caught[0] if caught else f'killed by signal {-done.returncode}'}")


@pytest.mark.skipif(not ALL, reason="the ordinary suite is these tests, without a bug")
@pytest.mark.parametrize(("family", "small"), sorted({(BUGS[name].family, BUGS[name].small) for name in HERE}))
def test_planted__nothing(family: str, small: bool, build: Callable[..., Path], tmp_path: Path) -> None:
    module = make(build, family, NATIVE, tmp_path, small)
    bugs = [BUGS[name] for name in HERE]
    for tests in sorted({tuple(bug.tests) for bug in bugs if (bug.family, bug.small) == (family, small)}):
        done = outcome(list(tests), module)
        assert done.returncode == 0, f"{tests}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
