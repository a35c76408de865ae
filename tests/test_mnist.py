"""The examples as a user runs them: the published bits, and the same ones whatever the machine does.

MNIST is read from ../shared/mnist beside the checkout; without it those tests are skipped
and the digits of scikit-learn remain.
"""

from __future__ import annotations

import importlib.util
import json
import os
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import repdl
from repdl.testing import processes

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "mnist_training.py"
MNIST = ROOT.parent / "shared" / "mnist"
GALLERY = ROOT / "docs" / "gallery"
"""What docs/gallery.md says that the examples print."""
RECORDED = json.loads((ROOT / "examples" / "recorded_hashes.json").read_text())
KEYS = ("initial", "trained", "accuracy", "logits", "after_steps", "loss_at_steps")

USABLE = [name for name, row in repdl.backends().items() if row.error is None]

has_mnist = pytest.mark.skipif(not (MNIST / "expected.json").exists(), reason="no ../shared/mnist")
has_initial_bits = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT",
    reason="torch's own initialisation has other bits on processors without AVX2",
)
fast_backends = pytest.mark.parametrize("backend", [name for name in USABLE if name in ("cpu", "cuda")])


def isas() -> list[str]:
    return repdl.backends()["cpu"].details["supported"].split()


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mnist_training", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(tmp_path: Path, *args: str, **env: str) -> tuple[dict[str, Any], str]:
    """The report and the output of one run of the script, which must succeed."""
    report = tmp_path / "report.json"
    done = processes.python(SCRIPT, "--json", report, *args, environment={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(report.read_text()), done.stdout


@has_mnist
@has_initial_bits
@fast_backends
def test_mnist__published_bits(tmp_path: Path, backend: str) -> None:
    expected = json.loads((MNIST / "expected.json").read_text())
    report, output = run(tmp_path, "--data", str(MNIST), "--contract", "sequential", "--backend", backend)
    assert report["after_steps"] == expected["after_steps"]
    assert output.splitlines()[:4] == [
        f"Hash of the initial model: {expected['initial']}",
        f"Hash of the trained model: {expected['trained']}",
        f"Test accuracy of the model on the 10000 test images: {expected['test_accuracy']}",
        f"Hash of the logits: {expected['logits']}",
    ]


@pytest.mark.nightly  # in other runs ten steps, and all of the digits
@has_mnist
@has_initial_bits
@fast_backends
def test_mnist__recorded_bits_of_v1(tmp_path: Path, backend: str) -> None:
    report, output = run(tmp_path, "--data", str(MNIST), "--contract", "v1", "--backend", backend)
    assert {key: report[key] for key in KEYS} == {key: RECORDED["mnist"]["v1"][key] for key in KEYS}
    assert "All hashes equal those recorded" in output


LEVELS = product(("v1", "sequential"), ("baseline", "avx2", "avx512"), (1, 3))


@has_mnist
@has_initial_bits
@pytest.mark.parametrize(
    ("contract", "isa", "threads"),
    [pytest.param(*one, marks=() if one[::2] == ("v1", 3) else pytest.mark.nightly) for one in LEVELS],
)
def test_mnist__isa_and_threads(tmp_path: Path, contract: str, isa: str, threads: int) -> None:
    if isa not in isas():
        pytest.skip(f"this machine does not support {isa}")
    args = ["--data", str(MNIST), "--contract", contract, "--threads", str(threads), "--steps", "10"]
    report, _ = run(tmp_path, *args, REPDL_CPU_ISA=isa)
    assert report["after_steps"] == {s: RECORDED["mnist"][contract]["after_steps"][s] for s in ("1", "2", "10")}


@has_mnist
@has_initial_bits
@pytest.mark.parametrize("contract", ["v1", pytest.param("sequential", marks=pytest.mark.nightly)])
def test_mnist__reference_backend(contract: str) -> None:
    module = example()
    report: dict[str, Any] = {"after_steps": {}, "loss_at_steps": {}}
    with repdl.use_contract(contract):
        data, _ = module.mnist(MNIST)
        torch.manual_seed(0)
        model = repdl.from_torch_module(module.lenet())
        module.lenet()
        with repdl.use_backend("reference"):
            module.train(model, data, "cpu", 1, 2, report)
    assert report["after_steps"] == {s: RECORDED["mnist"][contract]["after_steps"][s] for s in ("1", "2")}


FROM_STATE = """
import sys, torch, repdl
sys.path.insert(0, sys.argv[1])
import mnist_training as example
data, _ = example.digits()
model = repdl.from_torch_module(example.lenet())
model.load_state_dict(torch.load(sys.argv[2]))
torch.manual_seed(1)
example.train(model, data, "cpu", 1, 10, {"after_steps": {}, "loss_at_steps": {}})
print(repdl.digest(model))
"""


@pytest.mark.nightly
def test_digits__what_torch_uses_of_the_processor(tmp_path: Path) -> None:
    """One initial state, ten steps, under each of torch's own levels of instructions."""
    state = tmp_path / "state.pt"
    torch.save(example().lenet().state_dict(), state)
    levels = [{**os.environ, "ATEN_CPU_CAPABILITY": level} for level in ("default", "avx2", "avx512")]
    runs = [processes.python("-c", FROM_STATE, SCRIPT.parent, state, environment=level) for level in levels]
    assert not any(done.returncode for done in runs), runs
    digests = {done.stdout for done in runs}
    assert len(digests) == 1


@has_initial_bits
@pytest.mark.parametrize("contract", ["v1", pytest.param("sequential", marks=pytest.mark.nightly)])
@fast_backends
def test_digits__recorded_bits(tmp_path: Path, contract: str, backend: str) -> None:
    report, output = run(tmp_path, "--contract", contract, "--backend", backend)
    assert {key: report[key] for key in KEYS} == {key: RECORDED["digits"][contract][key] for key in KEYS}
    assert "All hashes equal those recorded" in output
    assert contract != "v1" or output == (GALLERY / "mnist_training.txt").read_text()


@has_initial_bits
@pytest.mark.skipif("cuda-emulated" not in USABLE, reason="no emulated build of repdl-cuda")
@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_digits__cuda_emulated(tmp_path: Path, contract: str) -> None:
    report, _ = run(tmp_path, "--contract", contract, "--backend", "cuda-emulated", "--steps", "2")
    assert report["after_steps"] == {s: RECORDED["digits"][contract]["after_steps"][s] for s in ("1", "2")}


@has_initial_bits
@pytest.mark.parametrize("saved", [True, False])
def test_digits__initial_state_of_a_file(tmp_path: Path, saved: bool) -> None:
    """A run begins with it, whatever torch would initialise; a run with other bits so far fails."""
    start = tmp_path / "start.pt"
    assert processes.python(SCRIPT, "--save-start", start).returncode == 0
    if not saved:  # the batches of another seed
        torch.save(torch.load(start) | {"generator": torch.Generator().manual_seed(7).get_state()}, start)
    done = processes.python(SCRIPT, "--steps", "2", "--start", start)
    says = "So far all hashes equal those recorded" if saved else "Differs from the recorded run in: step 1, step 2."
    assert done.returncode == (0 if saved else 1) and says in done.stdout, done.stdout + done.stderr


def test_digits__backend_that_cannot_be_used() -> None:
    done = processes.python(SCRIPT, "--backend", "abacus")
    assert done.returncode == 2 and "backend 'abacus' is not installed" in done.stderr


def test_digits__other_bits_are_reported(tmp_path: Path) -> None:
    """A run whose order is another one must not pass for the recorded one."""
    report = tmp_path / "report.json"
    args = ["--contract", "dot_chunk=7,sum_lanes=64,sum_block=1024", "--steps", "10", "--json", report]
    done = processes.python(SCRIPT, *args)
    assert done.returncode == 0, done.stderr
    steps = json.loads(report.read_text())["after_steps"]
    assert steps["1"] != RECORDED["digits"]["v1"]["after_steps"]["1"]


def of_repdl(printed: str) -> list[str]:
    """Lines that do not depend on the machine."""
    return [line for line in printed.splitlines() if "RepDL" in line]


def test_reproducible_ops() -> None:
    script = ROOT / "examples" / "reproducible_ops.py"
    done = processes.python(script)
    lines = of_repdl(done.stdout)
    assert len(lines) == 6 and not any("False" in line for line in lines)
    assert torch.cuda.is_available() or lines == of_repdl((GALLERY / "reproducible_ops.txt").read_text())
