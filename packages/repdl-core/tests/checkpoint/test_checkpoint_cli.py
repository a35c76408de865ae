"""`repdl checkpoint show` and `repdl checkpoint diff`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import repdl
from repdl import checkpoint
from repdl.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three checkpoints of a run, of which the last has another extra value alone."""
    model = torch.nn.Linear(2, 1)
    checkpoint.save(tmp_path / "step-1", model=model, extra={"step": 1})
    with torch.no_grad():
        model.bias += 1
    checkpoint.save(tmp_path / "step-2", model=model, extra={"step": 2, "loss": 0.5, "note": "x"})
    checkpoint.save(tmp_path / "step-3", model=model, extra={"step": 3, "loss": 0.5, "note": "x"})
    return tmp_path


def test_cli__show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(folder / "step-3")]) == 0
    out = capsys.readouterr().out
    model = torch.nn.Linear(2, 1)
    second = checkpoint.load(folder / "step-2", model=model)
    assert (
        f"went on from {second.digest}  {folder / 'step-2'}" in out and f"{second.previous}  {folder / 'step-1'}" in out
    )
    squeezed = "\n".join(" ".join(line.split()) for line in out.splitlines())
    for line in (
        f"model/bias float32[1] {repdl.digest(model.bias)}",
        "generators torch, repdl, numpy, python",
        "extra/loss 0.5 (0x1.0000000000000p-1)",
        "extra/note x",
    ):
        assert line in squeezed, out
    data = (folder / "step-3").read_bytes()
    (folder / "step-3").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert main(["checkpoint", "show", str(folder / "step-3")]) == 1
    assert "is damaged: the bytes of generators/torch have another digest" in capsys.readouterr().err


def test_cli__diff(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "diff", str(folder / "step-2"), str(folder / "step-3")]) == 1
    assert capsys.readouterr().out == "first difference: extra/step: 2 and 3\n1 paths differ\n"
    assert main(["checkpoint", "diff", str(folder / "step-1"), str(folder / "step-2")]) == 1
    first, count = capsys.readouterr().out.splitlines()
    assert first.startswith("first difference: model/bias: float32[1] ") and count == "4 paths differ"
    assert main(["checkpoint", "diff", str(folder / "step-1"), str(folder / "step-1")]) == 0
    assert capsys.readouterr().out.startswith("the same: ")
    assert main(["checkpoint", "diff", str(folder / "step-1"), str(folder / "nowhere")]) == 2
    assert "can't be read" in capsys.readouterr().err


def test_cli__diff_of_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps in the order of their numbers, not of their letters."""
    others = folder / "others"
    others.mkdir()
    assert main(["checkpoint", "diff", str(folder), str(others)]) == 2
    assert "no checkpoints of the same name" in capsys.readouterr().err
    for step in (2, 10):
        for where in (folder, others):
            checkpoint.save(where / f"step-{step}", extra={"step": step, "where": where.name})
    assert main(["checkpoint", "diff", str(folder), str(others)]) == 1
    assert capsys.readouterr().out.startswith("first difference: step-2: extra/where: ")
    (others / "step-2").write_bytes((folder / "step-2").read_bytes())
    assert main(["checkpoint", "diff", str(folder), str(others)]) == 1
    assert capsys.readouterr().out.startswith("first difference: step-10: extra/where: ")
    (others / "step-10").write_bytes((folder / "step-10").read_bytes())
    assert main(["checkpoint", "diff", str(folder), str(others)]) == 0
    assert capsys.readouterr().out == "the same, in each checkpoint of a name\n"
