"""docs/extending.md as its reader: its project is written out, built, installed and run outside the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What each command of the page prints, by its first words; and of a few lines more."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("no C++ compiler")
    project, site = tmp_path_factory.mktemp("my-ops"), tmp_path_factory.mktemp("site")
    page = PAGE.read_text(encoding="utf-8")
    for name, text in FILE.findall(page):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    (commands,) = COMMANDS.findall(page)
    results = {command: shell(command, project, site) for command in commands.splitlines()}
    (project / "use.py").write_text(USE)
    results["use"] = shell(f"{sys.executable} use.py", project, site)
    yield results
    shutil.rmtree(project)
    shutil.rmtree(site)


USE = """
import torch, repdl
from repdl.families import families
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
print(families()["sum_squares"].text().splitlines()[0])
"""


def test_extending__ops(printed: dict[str, str]) -> None:
    header, *rows = (line.split() for line in printed["repdl ops"].splitlines())
    (row,) = [row for row in rows if row[0] == "sum_squares"]
    listed = dict(zip(["op", "text", "cases", "from", *header[5:]], row))
    assert listed["text"] == "sum_squares" and listed["cases"] == "6" and listed["from"] == "my-ops"
    assert (listed["cpu"], listed["mine"], listed["reference"]) == ("yes", "-", "yes")
    (row,) = [row for row in rows if row[0] == "matmul"]
    assert row[header.index("mine") - 1] == "yes"


def test_extending__check(printed: dict[str, str]) -> None:
    """All float32 and half cases of matmul on the backend; all cases of the op on repdl-cpu."""
    match = re.match(r"mine: (\d+) cases under v1 and sequential, 0 differ", printed["repdl check mine"])
    assert match is not None and int(match[1]) > 60, printed["repdl check mine"]
    text = printed["repdl check cpu --family sum_squares"]
    assert text.startswith("cpu, my-ops: 6 cases under v1 and sequential, 0 differ"), text


def test_extending__parity(printed: dict[str, str]) -> None:
    text = printed["pytest tests"]
    for dtype in ("written", "bf16", "f16"):
        assert f"TestSumSquares::test_parity__op[sum_squares__{dtype}] PASSED" in text
    assert "TestMine::test_parity__op[matmul__bf16] PASSED" in text and "matmul__f64" not in text
    assert "FAILED" not in text and "SKIPPED" not in text


def test_extending__use(printed: dict[str, str]) -> None:
    lines = printed["use"].splitlines()
    assert lines[0] == "[14.0] [[2.0, -4.0, 6.0]] (5, 2)"
    assert lines[1] == lines[2] == "[3584, 3584, 3584, 3584] [3584]"  # subnormal, with and without flush-to-zero
    assert lines[3:6] == ["torch.float32", "torch.float64", "torch.bfloat16"]
    assert lines[6:9] == ["8.0", "8.0", "DTypeError"]
    assert lines[9] == "# sum_squares"
