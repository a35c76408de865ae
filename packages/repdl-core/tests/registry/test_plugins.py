"""Ops of other projects with files of their own, with none, and with broken ones, in every tool.

In processes of their own: entry points are read once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from repdl.testing import processes

OP = """
import torch
from repdl.dtypes import Dtypes
from repdl.registry.backend import Backend
from repdl.registry import define, implement

op = define(
    "{op}", "(Tensor input) -> Tensor", namespace="{package}", distribution="{package}-dist",
    check=lambda input: None, fake=lambda input: input.new_empty(input.shape),
    dtypes=Dtypes((torch.float32, torch.float64)),
)

for name in ("reference", "theirs"):
    implement("{op}", name, lambda input: input + input)
backend = Backend("theirs", "cpu", {{}}, priority=-300)
"""
CASES = """
import torch
from repdl.testing import EVERY, Case

CASES = [
    Case("twofold", "special", lambda: (torch.tensor([1.5, float("inf"), -0.0]),), dtypes=EVERY),
    Case("twofold", "one", lambda: (torch.ones(1),)),
]
"""
SUITE = """
import torch
from repdl.testing.parity import ParityTests

class TestParity(ParityTests):
    backend = "theirs"
"""
DRIVER = """
import sys
from repdl.cli import main
for command in sys.argv[1:]:
    print(f"== {command}", flush=True)
    print("status", main(command.split()), flush=True)
"""


class Site:
    """A folder on PYTHONPATH with four made-up distributions, one of them with a backend too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.add("whole", OP.format(op="twofold", package="whole"), backend=True)
        self.write("whole/contract/v1/twofold.md", "# twofold\n")
        self.write("whole/contract/v1/twofold.json", "{}\n")
        self.write("whole/testing/cases/twofold.py", CASES)
        self.add("bare", OP.format(op="doubled", package="bare"))
        self.add("odd", OP.format(op="paired", package="odd"))
        self.write("odd/testing/cases/paired.py", "import nosuch_library\n")
        self.add("gone", "raise OSError('libgone.so not found')\n")

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def add(self, package: str, code: str, backend: bool = False) -> None:
        self.write(f"{package}/__init__.py", code)
        info = f"{package}_dist-1.dist-info"
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}-dist\nVersion: 1\n")
        points = f"[repdl.ops]\n{package} = {package}:op\n"
        self.write(f"{info}/entry_points.txt", points + "[repdl.backends]\ntheirs = whole:backend\n" * backend)

    def python(self, *args: str) -> tuple[int, str]:
        """Exit status and output of an interpreter."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("REPDL_")}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.folder), environment.get("PYTHONPATH")]))
        done = processes.python(*args, environment=environment, cwd=self.folder)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def printed(site: Site) -> dict[str, str]:
    """What each command prints, in one process; the golden bits are recorded in between."""
    into = f"--into {site.folder}/whole/contract/v1"
    commands = [
        "ops", "info --json", "contract twofold", "contract doubled", f"golden twofold {into} --check",
        f"golden twofold {into}", f"golden --check {into} twofold", "golden doubled --into .",
        "check theirs", "check reference --family twofold",
    ]  # fmt: skip
    status, output = site.python("-c", DRIVER, *commands)
    assert status == 0, output
    parts = iter(output.removeprefix("== ").split("\n== "))
    return {command: next(parts).partition("\n")[2].strip() for command in commands}


def test_info__lists_plugins(printed: dict[str, str]) -> None:
    known = json.loads(printed["info --json"].rpartition("status")[0])
    errors = {plugin["distribution"]: plugin["error"] for plugin in known["plugins"]}
    assert errors == {
        "whole-dist": None, "bare-dist": None, "odd-dist": None, "gone-dist": "OSError: libgone.so not found",
    }  # fmt: skip
    assert {row["name"]: row["error"] for row in known["backends"]}["theirs"] is None


def test_ops__lists_files_and_what_is_broken(printed: dict[str, str]) -> None:
    rows = {line.split()[0]: line.split() for line in printed["ops"].splitlines()}
    # special is made in float64 too
    assert rows["twofold"][:4] == ["twofold", "twofold", "3", "whole-dist"]
    assert rows["doubled"][:4] == ["doubled", "none", "none", "bare-dist"]
    assert rows["doubled"][-2:] == ["yes", "yes"] and rows["op"][-2:] == ["reference", "theirs"]
    assert "ModuleNotFoundError: No module named 'nosuch_library'" in printed["ops"]
    assert rows["matmul"][3] == "repdl-core"
    assert printed["ops"].splitlines()[-2:] == [
        "broken plug-in gone (gone-dist 1): OSError: libgone.so not found", "status 1",
    ]  # fmt: skip


def test_contract__of_other_projects(printed: dict[str, str]) -> None:
    assert printed["contract twofold"] == "# twofold\nstatus 0"
    assert printed["contract doubled"] == "status 1"  # the message goes to stderr


def test_golden__of_other_projects(printed: dict[str, str], site: Site) -> None:
    missing, written, checked = (printed[c] for c in printed if c.startswith("golden") and "twofold" in c)
    assert missing.count("is not among the golden bits") == 3 and missing.endswith("status 1")
    assert written == "twofold: 3 cases, 3 new\nstatus 0"
    assert checked == "status 0"
    assert printed["golden doubled --into ."] == "doubled: no cases\nstatus 1"
    assert not (site.folder / "doubled.json").exists()
    recorded = json.loads((site.folder / "whole/contract/v1/twofold.json").read_text())
    assert set(recorded["twofold__one"]) == {"v1", "sequential"}


def test_check__of_other_projects(printed: dict[str, str]) -> None:
    lines = printed["check theirs"].splitlines()
    assert lines[0] == "broken plug-in gone (gone-dist 1): OSError: libgone.so not found"
    text = printed["check theirs"]
    assert "theirs, whole-dist: 3 cases under v1 and sequential, 0 differ from the golden bits" in text
    assert "  not compared: doubled: no cases" in text
    assert "  broken: paired: ModuleNotFoundError: No module named 'nosuch_library'" in text
    assert lines[-1] == "status 1"
    assert "reference, whole-dist: 3 cases" in printed["check reference --family twofold"]


def test_check__what_is_wrong_or_missing_is_a_line(site: Site, printed: dict[str, str], tmp_path: Path) -> None:
    other = Site(tmp_path)
    bits = json.loads((site.folder / "whole/contract/v1/twofold.json").read_text())
    bits["twofold__one"]["v1"] = "0" * 64
    del bits["twofold__special"]
    other.write("whole/contract/v1/twofold.json", json.dumps(bits))
    other.write("whole/testing/cases/twofold.py", CASES + 'CASES.append(Case("twofold", "bad", lambda: 1 / 0))\n')
    other.add("lone", OP.format(op="lonely", package="lone").replace('"reference", "theirs"', '"theirs",'))
    other.write("lone/testing/cases/lonely.py", CASES.replace("twofold", "lonely"))
    commands = [f"check {backend} --family lonely" for backend in ("reference", "theirs")]
    _, text = other.python("-c", DRIVER, "check theirs --family twofold", *commands, "golden lonely --into .")
    assert "4 cases under v1 and sequential, 5 differ" in text
    assert f"twofold__one v1: digest {bits['twofold__one']['sequential']}, recorded {'0' * 64}" in text
    assert "twofold__special sequential: digest" in text and "recorded None" in text
    assert "twofold__bad v1: ZeroDivisionError: division by zero" in text
    assert "reference: nothing to compare of lonely\nstatus 1" in text
    assert "theirs, lone-dist: 0 cases" in text and "  not compared: lonely: no golden bits" in text
    assert "theirs: nothing to compare of lonely\nstatus 1" in text
    assert text.endswith("lonely: lonely not implemented by reference, whose bits are the golden ones\nstatus 1\n")


def test_parity__of_other_projects(site: Site, printed: dict[str, str]) -> None:
    site.write("test_theirs.py", SUITE)
    status, text = site.python("-m", "pytest", "-v", "-p", "no:cacheprovider", "test_theirs.py")
    assert status == 0, text
    assert "test_parity__op[twofold__f64] PASSED" in text
    assert text.count("test_parity__op[twofold") == 2
    assert "BrokenPluginWarning: odd-dist: the cases of paired failed to load: ModuleNotFoundError" in text


SPECTRAL = """
import torch
from repdl.registry.backend import Backend

def op(x):
    return _inner(x)

def _inner(x):
    return torch.fft.rfft(x).real

def hidden():
    return op(torch.ones(4))

backend = Backend("theirs", "cpu", {}, priority=-300)
"""
PROGRAM = """
import torch, repdl, kernels, spectral

def shown(call, *args):
    try:
        call(*args)
    except repdl.errors.UnsupportedError as error:
        print(error)

class Model(torch.nn.Module):
    def forward(self, x):
        return spectral.op(x)  # the line of the model

def eager(x):
    return spectral.op(x)  # the line of the program

def of_backend(x):
    return kernels.op(x)  # the line of the other

compiled = torch.compile(eager, backend="repdl")
shown(repdl.from_torch_module(Model()), torch.ones(4))
shown(compiled, torch.ones(4))
with repdl.enabled():
    shown(eager, torch.ones(4))
    shown(of_backend, torch.ones(4))
    shown(spectral.hidden)
"""


def test_place__is_the_callers(tmp_path: Path) -> None:
    """A refusal inside a package that brings ops, or a backend, names the line that calls the package."""
    site = Site(tmp_path)
    site.add("spectral", SPECTRAL)
    site.write("kernels/__init__.py", SPECTRAL)
    site.write("kernels_dist-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: kernels-dist\nVersion: 1\n")
    site.write("kernels_dist-1.dist-info/entry_points.txt", "[repdl.backends]\ntheir_kernels = kernels:backend\n")
    site.write("program.py", PROGRAM)
    status, text = site.python("program.py")
    assert status == 0, text
    lines = [line for line in text.splitlines() if "fft" in line]
    of_program = "return spectral.op(x)  # the line of the program"
    called = ["# the line of the model", of_program, of_program, "# the line of the other", "call(*args)"]
    assert len(lines) == len(called), text
    for line, words in zip(lines, called):
        assert words in line and "program.py:" in line, line
