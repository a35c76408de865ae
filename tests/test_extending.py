"""docs/extending.md as its reader: its project is written out, built, installed and run outside the checkout."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shell(command: str, folder: Path, site: Path) -> str:
    """The output of a command in the project, with what it installs in a folder of its own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("REPDL_", "PIP_", "PYTEST_"))}
    environment = {
        **clean,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), clean.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(site), clean.get("PYTHONPATH")])),
        "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_TARGET": str(site), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTEST_ADDOPTS": "-v",
    }  # fmt: skip
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def written(project: Path, page: str) -> None:
    for name, text in FILE.findall(page):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What each command of the page prints, by its first words; and of a few lines more."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("no C++ compiler")
    project, site, other = (tmp_path_factory.mktemp(name) for name in ("my-ops", "site", "other-ops"))
    page = PAGE.read_text(encoding="utf-8")
    written(project, page)
    (commands,) = COMMANDS.findall(page)
    results = {command: shell(command, project, site) for command in commands.splitlines()}
    (project / "use.py").write_text(USE)
    results["use"] = shell(f"{sys.executable} use.py", project, site)
    for old, new in RENAMED.items():
        page = page.replace(old, new)
    written(other, page)
    shell(commands.splitlines()[0], other, site)
    (project / "both.py").write_text(BOTH)
    results["both"] = shell(f"{sys.executable} both.py", project, site)
    results["this kit"] = shell(f"{sys.executable} -c {shlex.quote(RECORDED)}", project, site)
    with_other_abi(project, site)
    results["other kit"] = shell(f"{sys.executable} -c {shlex.quote(RECORDED)}", project, site)
    yield results
    for folder in (project, site, other):
        shutil.rmtree(folder)


def with_other_abi(project: Path, site: Path) -> None:
    """Build the project's module again, with the headers of a kit that has another number of the call ABI."""
    include = PAGE.parents[1] / "packages/repdl-core/src/repdl_contract/include"
    header = (include / "repdl/python/abi.hpp").read_text()
    changed = re.sub(r"(?<=REPDL_CALL_ABI )\d+", lambda number: str(int(number[0]) - 1), header, count=1)
    assert changed != header
    first = project / "other_kit/repdl/python"
    first.mkdir(parents=True)
    (first / "abi.hpp").write_text(changed)
    (module,) = (site / "my_ops").glob("_native*")
    flags = ["-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]
    folders = (f"-I{first.parents[1]}", f"-I{include}", f"-I{sysconfig.get_paths()['include']}")
    command = [os.environ.get("CXX", "c++"), *flags, *folders, "native/my_ops.cpp", "-o", str(module), "-ldl"]
    shell(shlex.join(command), project, site)


RECORDED = """
import torch, repdl

x = torch.tensor([[1.0, -2.0, 3.0]], requires_grad=True)
for _ in range(4):
    y = repdl.ops.sum_squares(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    with repdl.use_backend("mine"):
        print(y.tolist(), grad.tolist(), repdl.ops.mm(x.detach(), x.detach().t()).tolist())
print(repdl.ops.sum_squares.recordings)
"""
"""How many calls of the op are repeated by the call cache is the last line."""


RENAMED = {
    "my_ops": "other_ops",
    "my-ops": "other-ops",
    "sum_squares": "squares_sum",
    "mean_square": "square_mean",
    "mine": "theirs",
}
"""A second project of the page."""
BOTH = """
import torch, repdl
import my_ops._native as first, other_ops._native as second

print(sorted(first.kernels), sorted(second.kernels))
x = torch.tensor([[1.0, -2.0, 3.0]])
for _ in range(4):
    print(repdl.ops.sum_squares(x).item(), repdl.ops.squares_sum(x).item())
for name in ("mine", "theirs", "mine"):
    with repdl.use_backend(name):
        print(repdl.ops.mm(x, x.t()).item())
print([kernel.arguments for kernel in (*first.kernels.values(), *second.kernels.values())])
"""
ALIKE = """
import sys, torch
from importlib.util import module_from_spec, spec_from_file_location

sys.setdlopenflags(int(sys.argv[1]))
modules = []
for path in sys.argv[2:]:
    spec = spec_from_file_location("_native", path)
    modules.append(module_from_spec(spec))
    spec.loader.exec_module(modules[-1])
x, out = torch.tensor([[1.0, -2.0, 3.0]]), torch.empty(1)
for module in modules:
    module.kernels["sum_squares", "float32"]((x, (0, 16, 0)), (out,), (1, 0, 0), x)
    print(out.item(), len(module.kernels), [kernel.layout for kernel in module.kernels.values()])
"""

USE = """
import torch, repdl
from repdl.registry.families import families
from repdl.testing import bits

x = torch.tensor([[1.0, -2.0, 3.0]], requires_grad=True)
y = repdl.ops.sum_squares(x)
y.sum().backward()
print(y.tolist(), x.grad.tolist(), tuple(repdl.ops.sum_squares(torch.empty(5, 2, 3, device="meta")).shape))

small = torch.full((4, 7), 2.0**-70)
for mode in (False, True):
    torch.set_flush_denormal(mode)
    print(bits(repdl.ops.sum_squares(small)).tolist(), bits(repdl.ops.mm(small, small.t())).unique().tolist())
torch.set_flush_denormal(False)

ones = torch.ones(2, 2)
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    print(repdl.ops.mm(ones.to(dtype), ones.to(dtype)).dtype)
with repdl.use_backend("mine"):
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        try:
            print(repdl.ops.mm(ones.to(dtype), ones.to(dtype)).sum().item())
        except repdl.RepDLError as error:
            print(type(error).__name__)
print(repdl.ops.mean_square(x).item(), repdl.ops.mean_square(x.detach().bfloat16()).dtype)
print(families()["sum_squares"].text().splitlines()[0])
"""


def test_extending__ops(printed: dict[str, str]) -> None:
    header, *rows = (line.split() for line in printed["repdl ops"].splitlines())
    (row,) = [row for row in rows if row[0] == "sum_squares"]
    listed = dict(zip(["op", "text", "cases", "from", *header[5:]], row))
    assert listed["text"] == "sum_squares" and listed["cases"] == "6" and listed["from"] == "my-ops"
    assert (listed["cpu"], listed["mine"], listed["reference"]) == ("yes", "-", "yes")
    (row,) = [row for row in rows if row[0] == "mean_square"]
    assert row[1:4] == ["sum_squares", "4", "my-ops"]
    (row,) = [row for row in rows if row[0] == "matmul"]
    assert row[header.index("mine") - 1] == "yes"


def test_extending__check(printed: dict[str, str]) -> None:
    """All float32 and half cases of matmul on the backend; all cases of the op on repdl-cpu."""
    match = re.match(r"mine: (\d+) cases under v1 and sequential, 0 differ", printed["repdl check mine"])
    assert match is not None and int(match[1]) > 60, printed["repdl check mine"]
    text = printed["repdl check cpu --family sum_squares"]
    assert text.startswith("cpu, my-ops: 10 cases under v1 and sequential, 0 differ"), text
    assert "  derivatives of 2 ops compared with differences, 0 wrong\n" in text


def test_extending__parity(printed: dict[str, str]) -> None:
    text = printed["pytest tests"]
    for name in (f"{op}__{dtype}" for op in ("sum_squares", "mean_square") for dtype in ("written", "bf16", "f16")):
        assert f"TestSumSquares::test_parity__op[{name}] PASSED" in text
    assert "TestMine::test_parity__op[matmul__bf16] PASSED" in text and "matmul__f64" not in text
    assert "FAILED" not in text and "SKIPPED" not in text


def test_extending__use(printed: dict[str, str]) -> None:
    lines = printed["use"].splitlines()
    assert lines[0] == "[14.0] [[2.0, -4.0, 6.0]] (5, 2)"
    assert lines[1] == lines[2] == "[3584, 3584, 3584, 3584] [3584]"  # subnormal, with and without flush-to-zero
    assert lines[3:6] == ["torch.float32", "torch.float64", "torch.bfloat16"]
    assert lines[6:9] == ["8.0", "8.0", "DTypeError"]
    assert lines[9:] == ["4.666666507720947 torch.bfloat16", "# sum_squares"]


def test_extending__two_plug_ins(printed: dict[str, str]) -> None:
    """Both built by the page, in one process."""
    kernels, *values = printed["both"].splitlines()
    assert kernels == str([("matmul", "float32"), ("sum_squares", "float32")]) + " " + str(
        [("matmul", "float32"), ("squares_sum", "float32")]
    )
    assert values == ["14.0 14.0"] * 4 + ["14.0"] * 3 + ["[3, 6, 3, 6]"]


def test_extending__a_plug_in_of_another_kit(printed: dict[str, str]) -> None:
    """It computes the same; its kernels are called one by one, as what binds a call may differ."""
    *values, recorded = printed["this kit"].splitlines()
    *others, none = printed["other kit"].splitlines()
    assert values == others == ["[14.0] [[2.0, -4.0, 6.0]] [[14.0]]"] * 4
    assert int(recorded) > 0 and int(none) == 0


def test_extending__two_plug_ins_with_visible_symbols(tmp_path: Path) -> None:
    """Compiled without the flags of `repdl::contract`, and loaded so that they see each other: each has its own."""
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        pytest.skip("no C++ compiler")
    written(tmp_path, PAGE.read_text(encoding="utf-8"))
    first, *rest = (tmp_path / name for name in ("first.so", "second.so", "third.so"))
    include = PAGE.parents[1] / "packages/repdl-core/src/repdl_contract/include"
    flags = [
        "-std=c++17",
        "-fPIC",
        "-shared",
        "-ffp-contract=off",
        f"-I{include}",
        f"-I{sysconfig.get_paths()['include']}",
    ]
    command = [compiler, *flags, str(tmp_path / "native/my_ops.cpp"), "-o", str(first), "-ldl"]
    shell(shlex.join(command), tmp_path, tmp_path)
    for copied in rest:
        shutil.copy(first, copied)
    (tmp_path / "alike.py").write_text(ALIKE)
    for mode in (os.RTLD_LOCAL | os.RTLD_NOW, os.RTLD_GLOBAL | os.RTLD_NOW):
        command = [sys.executable, "alike.py", str(mode), *map(str, (first, *rest))]
        lines = shell(shlex.join(command), tmp_path, tmp_path).splitlines()
        assert lines == ["14.0 2 ['rows', 'strided']"] * 3
