"""What the `repdl` command prints as JSON has the shape that docs/reference/cli.md says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl import checkpoint
from repdl.cli import main
from repdl.registry.backend import Backend, get_backend, register_backend, unregister_backend
from repdl.registry.plugins import Plugin

PAGE = (Path(__file__).parents[1] / "docs/reference/cli.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^`repdl ((?:checkpoint )?\w+)[^`\n]*--json`[^\n]*\n\n```json\n(.*?)```", re.MULTILINE | re.DOTALL)
SHAPES = {command: json.loads(shape) for command, shape in BLOCK.findall(PAGE)}


def same_shape(found: Any, said: Any, where: str) -> None:
    """Keys and types, in every element of a list; what is null somewhere says nothing."""
    if found is None or said is None:
        return
    assert type(found) is type(said), f"{where}: {found!r}, said {said!r}"
    if isinstance(said, dict) and said:
        assert found.keys() == said.keys(), where
        for key in said:
            same_shape(found[key], said[key], f"{where}.{key}")
    if isinstance(said, list) and said:
        for element in found:
            same_shape(element, said[0], f"{where}[]")


@pytest.fixture
def wrong() -> Any:
    """A backend of which an op is wrong, and one raises."""

    def raising(*args: Any) -> Any:
        raise OSError("no")

    ops = get_backend("reference").ops
    register_backend(Backend("wrong", "cpu", {"neg": lambda x: -ops["neg"](x), "abs": raising, "cast": ops["cast"]}))
    yield
    unregister_backend("wrong")


def test_cli__shapes(
    wrong: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("repdl.cli.plugins", lambda: (Plugin("gone", "gone-dist", "1", "OSError: no"),))
    monkeypatch.setattr("repdl.records.trial.settings", list)  # none: each takes seconds
    for step in (1, 2):
        checkpoint.save(tmp_path / f"step-{step}", model=torch.nn.Linear(2, 1), extra={"step": step})
    before, after = str(tmp_path / "step-1"), str(tmp_path / "step-2")
    records = [str(tmp_path / name) for name in ("a.repdl", "b.repdl")]
    for value, path in enumerate(records):
        with repdl.record(path, values=True, program=["train.py"]):
            torch.ones(2) * value
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pt")
    (tmp_path / "train.py").write_text("import torch\ntorch.optim.SGD([torch.nn.Parameter(torch.ones(2))]).step()\n")
    program = str(tmp_path / "train.py")
    assert main(["run", "--receipt", str(tmp_path / "run.json"), program]) == 0
    commands = {
        "checkpoint show": (["checkpoint", "show", after], 0),
        "checkpoint diff": (["checkpoint", "diff", before, after], 1),
        "diff": (["diff", *records], 1),
        "rerun": (["rerun", records[0], "--op", "0"], 0),
        "verify": (["verify", str(tmp_path / "run.json")], 0),
        "digest": (["digest", str(tmp_path / "x.pt")], 0),
        "try": (["try", "--json", "program.py"], 1),
        "info": (["info"], 1),
        "ops": (["ops", "neg", "softmax"], 1),
        "contract": (["contract", "mm"], 0),
        "check": (["check", "wrong", "--family", "neg", "--family", "mm"], 1),
        "golden": (["golden", "cast", "--into", str(tmp_path), "--check"], 1),
    }
    assert SHAPES.keys() == commands.keys()
    for name, (command, status) in commands.items():
        assert main(command if "--json" in command else [*command, "--json"]) == status, name
        found = json.loads(capsys.readouterr().out)
        same_shape(found, SHAPES[name], name)
        if name == "check":
            (report,) = found["reports"]
            assert {bool(each["error"]) for each in report["wrong"]} == {True, False}
            assert found["problems"] == [
                "broken plug-in gone (gone-dist 1): OSError: no",
                "wrong: nothing to compare of matmul",
            ]
        if name == "ops":
            assert found["broken"] == ["broken plug-in gone (gone-dist 1): OSError: no"]
        if name == "checkpoint diff":
            assert found["differences"][0]["path"] == "model/weight"
