"""The audit finds every planted violation, and nothing in kernels that only look like one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from audit import ptx, sass, toolkit

HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false"]
ARCHITECTURES = (75, 80, 90, 100, 120)
ONLY_IN_PTX = {
    *("bare_sum", "bare_product"),  # ptxas found nothing to fuse them with
    *("atomic_shared", "rounded_down"),
}
"""Planted violations that machine code does not tell from what is legal."""


def compiled(folder: Path, source: Path, *flags: str) -> tuple[str, str]:
    """PTX and SASS of a source file."""
    out = folder / "kernels.fatbin"
    toolkit.run("nvcc", "-fatbin", "-o", out, *flags, source)
    return toolkit.run("cuobjdump", "-ptx", out), toolkit.run("cuobjdump", "-sass", out)


def for_machines(*architectures: int) -> list[str]:
    """nvcc's flags for machine code of each, and PTX of the last."""
    real = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    return [*real, f"-gencode=arch=compute_{architectures[-1]},code=compute_{architectures[-1]}"]


def kernels(source: str) -> set[str]:
    return set(re.findall(r"__global__ void (\w+)", (HERE / source).read_text()))


def named(violations: list[str]) -> set[str]:
    """The kernels of violations, as the source spells them: _Z4sinePf is sine."""
    found = set()
    for violation in violations:
        length, rest = re.match(r"\w+: _Z(\d+)(\w+)", violation).groups()  # type: ignore[union-attr]
        found.add(rest[: int(length)])
    return found


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return compiled(tmp_path_factory.mktemp("planted"), HERE / "planted.cu", *FLAGS, *for_machines(90))


def test_audit__legal_kernels_pass_on_every_architecture(tmp_path: Path) -> None:
    text, code = compiled(tmp_path, HERE / "legal.cu", *FLAGS, *for_machines(*ARCHITECTURES))
    assert {kernel for kernel, _, _ in ptx.instructions(text)} >= {"_Z4rootPf"}
    assert len(list(sass.functions(code))) == len(ARCHITECTURES) * len(kernels("legal.cu"))
    assert ptx.violations(text) == []
    assert sass.violations(code) == []


def test_audit__ptx_shows_every_planted_violation(planted: tuple[str, str]) -> None:
    assert named(ptx.violations(planted[0])) == kernels("planted.cu")


def test_audit__machine_code_shows_most_by_itself(planted: tuple[str, str]) -> None:
    assert named(sass.violations(planted[1])) == kernels("planted.cu") - ONLY_IN_PTX


def test_audit__clamp_of_ptxas() -> None:
    """That to a number but 0, of a NaN too, and nothing else."""
    forms = {
        "FMNMX.NAN R5, R0, 40, PT": True,
        "FMNMX.NAN R5, R0.reuse, -103.97208404541015625, !PT": True,
        "FMNMX.NAN R5, R0, 1.5e-05, !PT": True,
        "FMNMX.NAN R5, R0, 0, !PT": False,
        "FMNMX.NAN R5, R0, -0, !PT": False,
        "FMNMX.NAN R5, R0, RZ, !PT": False,
        "FMNMX.NAN R5, R0, R7, !PT": False,
        "FMNMX.NAN R5, |R0|, 40, PT": False,
        "FMNMX.NAN R5, R0, 40, P0": False,
        "FMNMX.FTZ.NAN R5, R0, 40, PT": False,
        "FMNMX R5, R0, 40, PT": False,
        "DMNMX R4, R2, R6, PT": False,
    }
    for form, legal in forms.items():
        assert (sass.violations(f"Function : k\n /*0050*/ {form} ;\n") == []) == legal, form


def test_audit__fast_math(tmp_path: Path) -> None:
    text, code = compiled(tmp_path, HERE / "legal.cu", "-std=c++17", "--use_fast_math", *for_machines(90))
    floats = {"divide", "reciprocal", "root", "root_of_quotient"}
    assert named(ptx.violations(text)) >= floats | {"halves", "fold", "clamp"}
    assert named(sass.violations(code)) >= floats


def test_audit__contraction_left_to_ptxas(tmp_path: Path) -> None:
    """Without --fmad=false every kernel with an addition is a violation."""
    text, _ = compiled(tmp_path, HERE / "legal.cu", "-std=c++17", *for_machines(90))
    assert named(ptx.violations(text)) >= {"fold", "halves", "products"}


PRODUCTS = {
    "x[0] = x[1] * x[2] + x[3];": True,
    "x[0] = x[3] - x[1] * x[2];": True,
    "x[0] = x[1] * x[2];": True,
    "float p = x[1] * x[2]; x[0] = p; x[4] = p - x[3];": True,
    "x[0] += x[1] * x[2] * 0.1f;": True,
    "x[0] = __fmul_rn(x[1], x[2]) + x[3];": False,
    "x[0] = __fmaf_rn(x[1], x[2], x[3]);": False,
    "x[0] = x[1] / x[2] + sqrtf(x[3]) - 0.5f;": False,
}


def test_audit__plain_products(tmp_path: Path) -> None:
    """The lines of those that a compiler could fuse, and no other."""
    source = tmp_path / "products.cu"
    source.write_text("".join(f"__global__ void k{i}(float* x) {{ {body} }}\n" for i, body in enumerate(PRODUCTS)))
    found = ptx.plain_products(*(toolkit.ptx_of(source, f"-fmad={fmad}") for fmad in ("true", "false")))
    lines = {int(re.search(r"products\.cu:(\d+)", violation)[1]) for violation in found}  # type: ignore[index]
    assert lines == {i for i, plain in enumerate(PRODUCTS.values(), 1) if plain}


def test_audit__plain_product_in_a_header(tmp_path: Path) -> None:
    """One product of a real function, written as a product."""
    shutil.copytree(HERE.parents[1] / "contract/include", tmp_path, dirs_exist_ok=True)
    header = tmp_path / "repdl/exact/logarithm.hpp"
    right, wrong = "half - mul(s, madd(z, p, half))", "half - s * madd(z, p, half)"
    text = header.read_text()
    assert text.count(right) == 1
    header.write_text(text.replace(right, wrong))
    source = tmp_path / "log.cu"
    source.write_text(
        '#include "repdl/exact/log.hpp"\n__global__ void log(float* x) { x[0] = repdl::exact::log(x[1]); }\n'
    )
    found = ptx.plain_products(
        *(toolkit.ptx_of(source, f"-fmad={fmad}", includes=[tmp_path]) for fmad in ("true", "false"))
    )
    line = text[: text.index(right)].count("\n") + 1
    assert len(found) == 1 and f"logarithm.hpp:{line}: a plain product" in found[0], found


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "audit", *arguments], cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )


def test_audit__command_line(tmp_path: Path) -> None:
    """It exits with 1 for a violation, and for a module in which there is nothing to audit."""
    wrong = tmp_path / "wrong.cu"
    wrong.write_text("__global__ void wrong(float* x) { x[0] = x[1] * x[2] + x[3]; }\n")
    ran = command("--source", wrong)
    assert ran.returncode == 1 and "wrong.cu:1: a plain product" in ran.stdout, ran.stdout + ran.stderr
    right = tmp_path / "right.cu"
    right.write_text("__global__ void right(float* x) { x[0] = x[1] + x[3]; }\n")
    ran = command("--source", right)
    assert ran.returncode == 0 and "no violation" in ran.stdout, ran.stdout + ran.stderr
    toolkit.run("nvcc", "-shared", "-Xcompiler=-fPIC", *FLAGS, *for_machines(90), "-o", tmp_path / "right.so", right)
    ran = command(tmp_path / "right.so")
    assert ran.returncode == 0 and "1 kernels in PTX, 1 in SASS" in ran.stdout, ran.stdout + ran.stderr
    only_code = "-gencode=arch=compute_90,code=sm_90"
    toolkit.run("nvcc", "-shared", "-Xcompiler=-fPIC", *FLAGS, only_code, "-o", tmp_path / "no_ptx.so", right)
    ran = command(tmp_path / "no_ptx.so")
    assert ran.returncode == 1 and "nothing was audited" in ran.stdout, ran.stdout + ran.stderr
    assert command().returncode == 1
