"""Parts of a run, executed again from its own checkpoints: what the checkpoint has must be the receipt's."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl.cli import main
from repdl.errors import ReceiptError
from repdl.receipts import Receipt, receipt, verify
from repdl.testing import processes

STEPS, EVERY = 8, 2
PROGRAM = """
import argparse
import os
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--folder")
parser.add_argument("--resume", "--ckpt")
parser.add_argument("--most", type=int, default=8)
args = parser.parse_args()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.25), torch.nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x, y = torch.randn(8 * 4, 6), torch.arange(8 * 4) % 3
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
done = 0
if args.resume:
    state = torch.load(args.resume, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    done = state["done"]
for step, (x, y) in enumerate(data):
    if step == args.most:
        raise SystemExit
    if step < done:  # these batches are loaded again
        continue
    if args.resume and step == done:  # not before, as the loop over a loader begins with a draw
        torch.set_rng_state(state["generator"])
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if str(step) == os.environ.get("CHEAT"):
        with torch.no_grad():
            model[0].bias[0] += 1e-3
    if not args.resume:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"generator": torch.get_rng_state(), "done": step + 1}
        torch.save(state, f"{args.folder}/step-{step + 1}.pt")
"""


def run(folder: Path, cheat: int = -1) -> Path:
    """A run with its checkpoints and its receipt; it cheats in that step, as no execution of its program does."""
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    options = ["--receipt", str(folder / "run.json"), "--every", str(EVERY), str(folder / "train.py")]
    environment = {**os.environ, "CHEAT": str(cheat)}
    done = processes.python("-m", "repdl", "run", *options, "--folder", folder, environment=environment)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("segments") / "honest")


def going_on(folder: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    path = str(folder / "step-{step}.pt")
    status = main(["verify", str(folder / "run.json"), "--checkpoints", path, *options])
    said = capsys.readouterr()
    return status, said.out + said.err


def changed(folder: Path, step: int, change: str) -> None:
    """One thing of a checkpoint is another one."""
    path = folder / f"step-{step}.pt"
    state = torch.load(path, weights_only=True)
    if change == "a bit of a weight":
        state["model"]["0.weight"].view(torch.int32)[1, 2] ^= 1
    elif change == "a moment":
        state["optimizer"]["state"][0]["exp_avg"][0] = 0
    elif change == "a count of steps":
        state["optimizer"]["state"][0]["step"] += 1
    elif change == "the generator":
        state["generator"] = torch.Generator().manual_seed(9).get_state()
    elif change == "the rate":
        state["optimizer"]["param_groups"][0]["lr"] = 2e-2
    else:
        state["done"] += 1
    torch.save(state, path)


@pytest.mark.parametrize("first", [2, 6])
def test_segments__agree(honest: Path, first: int, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = going_on(honest, "--first", str(first), "--steps", "2", capsys=capsys)
    assert status == 0 and f"2 steps agree, {first} to {first + 1}" in said
    status, said = going_on(honest, "--first", str(first), capsys=capsys)
    assert status == 0 and f"{STEPS - first} steps agree, {first} to {STEPS - 1}" in said


CHANGES = {
    "a bit of a weight": "the checkpoint: parameters or the optimizer's state before step 4",
    "a moment": "the checkpoint: parameters or the optimizer's state before step 4",
    "a count of steps": "the checkpoint: parameters or the optimizer's state before step 4",
    "the generator": "step 5: parameters or the optimizer's state after it",  # hashed after each second step
    "the rate": "step 4: a hyperparameter of the optimizer",
    "the position": "step 4: the batches that were loaded before it",
}


@pytest.mark.parametrize("change", CHANGES)
def test_segments__of_another_checkpoint(
    change: str, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(honest, tmp_path / "run"))
    changed(folder, 4, change)
    status, said = going_on(folder, "--first", "4", capsys=capsys)
    assert status == 1 and f"first difference: {CHANGES[change]}" in said


def test_segments__sample(honest: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All are drawn where there are no more; a step that the program does not make is found in its part alone."""
    for cheat, part in ((0, 0), (4, 2)):
        status, said = going_on(run(tmp_path / str(cheat), cheat), "--sample", "9", "--json", capsys=capfd)
        shape = json.loads(said)
        assert (status, shape["status"], shape["parts"], shape["failed"]) == (1, 1, 4, 0)
        assert [found["first"] for found in shape["found"]] == [0, 2, 4, 6]
        state = "parameters or the optimizer's state after it"
        assert [bool(found["difference"]) for found in shape["found"]] == [n == part for n in range(4)]
        assert shape["found"][part]["difference"] == f"step {2 * part + 1}: {state}"
    status, said = going_on(honest, "--sample", "1", "--steps", "1", "--resume=--ckpt {checkpoint}", capsys=capfd)
    assert status == 0 and re.fullmatch(
        r"receipt: .* unsigned\nfrom step [0246]: 1 step agrees\n1 of 4 parts executed\n", said
    )


def test_segments__a_program_that_fails(honest: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is no difference; a program that ends too early is one."""
    folder = Path(shutil.copytree(honest, tmp_path / "run"))
    (folder / "step-4.pt").write_bytes(b"no checkpoint")
    status, said = going_on(folder, "--first", "4", capsys=capfd)
    assert status == 2 and "repdl verify: the program failed: UnpicklingError" in said
    status, said = going_on(folder, "--sample", "4", capsys=capfd)
    assert status == 2 and "from step 4: the program failed" in said and "3 of 4 parts executed" in said
    status, said = going_on(honest, "--first", "4", "--resume=--resume {checkpoint} --most 6", capsys=capfd)
    assert status == 1 and "the program ended after 2 steps from step 4 on, the receipt has 4" in said


def test_segments__what_is_refused(honest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def never(known: Receipt) -> None:
        raise AssertionError

    for first in (1, 3, STEPS, STEPS + 2):
        with pytest.raises(ReceiptError, match=f"no state after {first} steps, expected a multiple of 2 below 8"):
            verify(honest / "run.json", never, first=first)
    status, said = going_on(honest, "--first", "40", capsys=capsys)
    assert status == 2 and "step-40.pt is not there, expected the checkpoint after 40 steps" in said
    status, said = going_on(honest, capsys=capsys)
    assert status == 2 and "need --first N or --sample K" in said
    assert main(["verify", str(honest / "run.json"), "--sample", "2"]) == 2
    assert "--first and --sample need --checkpoints" in capsys.readouterr().err
    assert main(["verify", str(honest / "run.json"), "--sample", "2", "--checkpoints", "nowhere.pt"]) == 2
    assert "--checkpoints is nowhere.pt, expected {step} in it" in capsys.readouterr().err
    assert main(["verify", str(honest / "run.json"), "--sample", "2", "--checkpoints", "nowhere-{step}"]) == 2
    assert "names no checkpoint after a multiple of 2 steps" in capsys.readouterr().err


@pytest.mark.parametrize("second", [torch.optim.SGD, torch.optim.Adam])
def test_segments__of_several_optimizers(second: Any, tmp_path: Path) -> None:
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizers = [torch.optim.SGD(weights[:1], lr=0.5), second(weights[1:], lr=0.5)]
    with repdl.enabled(), receipt(tmp_path / "run.json", 2):
        for _ in range(4):
            for weight, optimizer in zip(weights, optimizers):
                weight.grad = torch.ones(2)
                optimizer.step()
    steps = repdl.receipts.read(tmp_path / "run.json").steps
    assert [step.which for step in steps] == [0, 1] * 4
    assert [step.state is not None for step in steps] == [False, False, True, True] * 2  # each second one of its own
    with pytest.raises(ReceiptError, match="several optimizers, expected one"):
        verify(tmp_path / "run.json", lambda known: None, first=4)
