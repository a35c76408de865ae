"""The C++ headers against MPFR: every 4,093rd argument, in the nightly session every 61st, and all known hard ones.

That is 4,000 arguments or more of each exponent; `nox -s prove` takes all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROVE = Path(__file__).parents[4] / "tools/exact/prove.py"


@pytest.mark.skipif(not PROVE.is_file(), reason="no source tree of RepDL here")
@pytest.mark.parametrize(
    ("nth", "builds"),
    [(4093, ("--builds", "x86-64", "x86-64-v3")), pytest.param(61, (), marks=pytest.mark.nightly)],
    ids=["sample", "all"],
)
def test_exact_headers__sample_of_every_function(nth: int, builds: tuple[str, ...]) -> None:
    # No compiler, no proof: this fails where there is none. A build of repdl-cpu needs one too.
    assert shutil.which(os.environ.get("CXX", "c++")), "needs a C++ compiler: c++, or $CXX"
    command = [sys.executable, str(PROVE), "--sample", str(nth), *builds]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) >= 13 and all(" wrong 0 " in line for line in lines), run.stdout
    assert all(int(line.split("checked ")[1].split()[0]) >= 2**32 // nth for line in lines)


@pytest.mark.skipif(not PROVE.is_file(), reason="no source tree of RepDL here")
def test_exact_headers__wrong_header_is_caught(tmp_path: Path) -> None:
    """Without one of its patches, a header fails on the hard arguments even of a small sample."""
    root = PROVE.parents[2]
    include = "packages/repdl-core/src/repdl_contract/include"
    for folder in (include, "packages/repdl-cpu/native"):
        shutil.copytree(root / folder, tmp_path / folder)
    shutil.copytree(PROVE.parent, tmp_path / "tools/exact")
    header = tmp_path / include / "repdl/exact/exp2.hpp"
    text = header.read_text()
    patched = [line for line in text.splitlines() if "0x3b429d37" in line]
    assert len(patched) == 1
    header.write_text(text.replace(patched[0], ""))
    options = ["exp2", "--builds", "x86-64", "--sample", "100003"]
    command = [sys.executable, str(tmp_path / "tools/exact/prove.py"), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "exp2(0x3b429d37) is wrong" in run.stdout, run.stdout + run.stderr


@pytest.mark.skipif(not PROVE.is_file(), reason="no source tree of RepDL here")
def test_exact_headers__proof_of_float64() -> None:
    """It passes the reference; 64 bits, then 53, are wrong on hard arguments alone, and it has those."""
    command = [sys.executable, str(PROVE.with_name("prove_double.py")), "rsqrt", "--random", "100"]
    reference = subprocess.run([*command, "--of", "reference"], capture_output=True, text=True, check=False)
    assert reference.returncode == 0 and "  wrong 0  " in reference.stdout, reference.stdout + reference.stderr
    twice = ["--of", "header", "--builds", "x86-64", "--include", "cmath"]
    twice += ["--call", "x < 0 || x != x ? NAN : double(1 / std::sqrt((long double)x))"]
    wrong = subprocess.run([*command, *twice], capture_output=True, text=True, check=False)
    count = int(wrong.stdout.split("  wrong ")[1].split()[0])
    assert wrong.returncode == 1 and 0 < count < 100, wrong.stdout + wrong.stderr
    assert "x86-64: rsqrt(0x1." in wrong.stdout


def margins(*options: str) -> subprocess.CompletedProcess[str]:
    """What tools/exact/margins.py says, of builds with and without fused multiply-adds."""
    command = [sys.executable, str(PROVE.with_name("margins.py")), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not PROVE.is_file(), reason="no source tree of RepDL here")
@pytest.mark.nightly  # the next test, which compiles some of the functions, runs always
def test_exact_headers__errors_of_fast_paths_are_below_their_margins() -> None:
    done = margins("--random", "50000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) >= 26, done.stdout


TOO_INEXACT = {
    "exp": ("exp.hpp", "exp_margin = 0x1p-70", "exp_margin = 0x1p-73"),
    "expm1": ("exp.hpp", "V::set1(1.0 / 5040)", "V::set1(0.0)"),
    "log": ("log.hpp", "V::set1(1.0 / 7)", "V::set1(0.0)"),
    "sin": ("sin.hpp", "everywhere(size < V::set1(0x1p+12))", "everywhere(size < V::set1(0x1p+20))"),
    "atan": ("atan.hpp", "V::set1(1.0 / 9)", "V::set1(0.0)"),
    "erf": ("erf.hpp", "erf_series<9>", "erf_series<8>"),
    "erfc": ("erf.hpp", "erfc_of(parts, erf_series<13>", "erfc_of(parts, erf_series<9>"),
    "erfinv": ("erf.hpp", "V::set1(1.0 / 24)", "V::set1(1.0 / 25)"),
}
"""Function -> the header in which a margin or a constant is changed, or a term left out."""


@pytest.mark.skipif(not PROVE.is_file(), reason="no source tree of RepDL here")
def test_exact_headers__error_beyond_its_margin_is_caught(tmp_path: Path) -> None:
    include = tmp_path / "include"
    shutil.copytree(PROVE.parents[2] / "packages/repdl-core/src/repdl_contract/include", include)
    for header, old, new in TOO_INEXACT.values():
        path = include / "repdl/exact/double_double" / header
        text = path.read_text()
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new))
    done = margins(*TOO_INEXACT, "--random", "2000", "--builds", "x86-64", "--headers", str(include))
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and len(lines) == len(TOO_INEXACT), done.stdout + done.stderr
    assert all(line.endswith("too large") for line in lines), done.stdout
