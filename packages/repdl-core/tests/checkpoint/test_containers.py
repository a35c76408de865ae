"""Files of other projects: one digest whatever the container, and where two of them differ."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl import checkpoint
from repdl.checkpoint.containers import load_container, unequal
from repdl.cli import main
from repdl.errors import CheckpointError

safetensors_torch = pytest.importorskip("safetensors.torch")


def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    return {**model.state_dict(), "half": torch.randn(3, dtype=torch.bfloat16), "mask": torch.tensor([True, False])}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The same tensors in every container."""
    tensors = state()
    names = [*tensors]
    made = {name: tmp_path / name for name in ("a.safetensors", "a.pt", "old.bin", "shards", "parts")}
    safetensors_torch.save_file(tensors, made["a.safetensors"], {"format": "pt"})
    torch.save(dict(reversed([*tensors.items()])), made["a.pt"])
    torch.save(tensors, made["old.bin"], _use_new_zipfile_serialization=False)
    for folder in ("shards", "parts"):
        made[folder].mkdir()
        (made[folder] / "config.json").write_text("{}")
        for i, part in enumerate((names[:3], names[3:])):
            held = {name: tensors[name] for name in part}
            if folder == "shards":
                safetensors_torch.save_file(held, made[folder] / f"model-{i}.safetensors")
            else:
                torch.save(held, made[folder] / f"model-{i}.bin")
    return made


def test_digest__is_that_of_the_state_dict(files, capsys: pytest.CaptureFixture[str]) -> None:
    expected = repdl.digest(state())
    for path in files.values():
        assert repdl.digest(load_container(path)) == expected, path
    assert main(["digest", *map(str, files.values())]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{expected}  {path}" for path in files.values()]
    assert main(["digest", "--tensors", "--json", str(files["a.pt"])]) == 0
    (found,) = json.loads(capsys.readouterr().out)["files"]
    assert found["parts"] == {name: repdl.digest(tensor) for name, tensor in state().items()}
    assert found["digest"] == expected


@pytest.mark.parametrize("change", ["bit", "name", "dtype", "shape"])
def test_digest__sees_a_change(change: str, tmp_path: Path) -> None:
    tensors: dict[str, Any] = state()
    if change == "bit":
        tensors["0.weight"] = torch.nextafter(tensors["0.weight"], torch.full_like(tensors["0.weight"], 9.0))
    elif change == "name":
        tensors["other"] = tensors.pop("half")
    elif change == "dtype":
        tensors["half"] = tensors["half"].float()
    else:
        tensors["half"] = tensors["half"].reshape(1, 3)
    torch.save(tensors, tmp_path / "a.pt")
    assert repdl.digest(load_container(tmp_path / "a.pt")) != repdl.digest(state())


def test_digest__of_a_checkpoint_is_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint.save(tmp_path / "run", model=torch.nn.Linear(2, 2))
    assert main(["checkpoint", "show", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out.split()[1]
    assert main(["digest", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.split()[0] == shown
    assert main(["diff", str(tmp_path / "run"), str(tmp_path / "run")]) == 0
    assert "the same" in capsys.readouterr().out


def test_diff__names_tensors_and_how_far(files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(files["a.pt"]), str(files["shards"])]) == 0
    assert capsys.readouterr().out == "the same\n"
    tensors: dict[str, Any] = state()
    tensors["0.bias"][1] = torch.nextafter(tensors["0.bias"][1], torch.tensor(9.0))
    tensors["more"] = tensors.pop("mask")
    tensors["half"] = tensors["half"].float()
    torch.save({"step": 3, **tensors}, tmp_path / "b.pt")
    assert main(["diff", str(files["a.safetensors"]), str(tmp_path / "b.pt")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("0.bias: float32[5], 1 of 5 elements differ, by 1 ulp at most: at [1] ")
    assert {*lines[1:]} == {
        "half: bfloat16[3] in a, float32[3] in b", "mask: only in a", "step: only in b", "more: only in b",
        "5 paths differ",
    }  # fmt: skip
    assert main(["diff", str(files["a.pt"]), str(tmp_path / "b.pt"), "--most", "2"]) == 1
    assert capsys.readouterr().out.splitlines()[2:] == ["5 paths differ, of which 2 are shown"]


def test_diff__nests() -> None:
    a = {"state": {0: {"step": 1, "avg": [torch.ones(2), (0.5, "x")]}}}
    b = {"state": {0: {"step": 2, "avg": [torch.ones(2), (0.5, "y")]}}}
    assert [*map(str, unequal(a, b))] == ["state.0.step: 1 in a, 2 in b", "state.0.avg[1][1]: 'x' in a, 'y' in b"]
    assert [*unequal(a, a)] == []
    negative = {"x": torch.tensor([0.0])}, {"x": torch.tensor([-0.0])}
    assert len([*unequal(*negative)]) == 1


def test_diff__sparse_tensors_are_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a.pt", 1.0), ("b.pt", 2.0)):
        torch.save({"x": torch.tensor([0.0, value]).to_sparse()}, tmp_path / name)
    assert main(["diff", str(tmp_path / "a.pt"), str(tmp_path / "b.pt")]) == 2
    assert "x has layout torch.sparse_coo, expected plain strided tensors" in capsys.readouterr().err


def test_containers__what_can_not_be_read(files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("no container")
    (tmp_path / "empty").mkdir()
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")  # a class, which only unsafe unpickling makes
    (files["shards"] / "twice.safetensors").write_bytes((files["shards"] / "model-0.safetensors").read_bytes())
    for path, text in (
        (tmp_path / "none", "does not exist, expected a file or a folder"),
        (tmp_path / "text", "can't be read"),
        (tmp_path / "empty", r"has no file of \*.safetensors or \*.pt"),
        (tmp_path / "module.pt", "can't be read: UnpicklingError"),
        (files["shards"], "twice.safetensors has .* as another file of .* has; name one of them"),
    ):
        with pytest.raises(CheckpointError, match=text):
            load_container(path)
        assert main(["digest", str(path)]) == 2
        assert capsys.readouterr().err.startswith("repdl digest: ")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(files["a.safetensors"].read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="can't be read: SafetensorError"):
        load_container(cut)


def test_containers__without_the_library(files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(CheckpointError, match="`pip install safetensors` reads it"):
        load_container(files["a.safetensors"])
    assert repdl.digest(load_container(files["a.pt"])) == repdl.digest(state())
