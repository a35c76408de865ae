"""docs/gallery.md: what it shows of examples/loss_curves.py; the tests of the other examples compare their outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repdl.testing import processes

pytest.importorskip("sklearn", reason="installed by `nox -s tests`")

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs/gallery"
RUNS = json.loads((GALLERY / "loss_curves.json").read_text())["runs"]


def test_gallery__settings_of_repdl_are_one_curve_and_those_of_torch_are_not() -> None:
    ours, torchs = ([run for run in RUNS if run["by"] == by] for by in ("repdl.enable()", "torch alone"))
    assert len(ours) == 2 and ours[0]["losses"] == ours[1]["losses"] and ours[0]["digest"] == ours[1]["digest"]
    assert len(torchs) == 3 and len({run["digest"] for run in torchs}) == 3
    firsts = [run["losses"][0] for run in RUNS]
    assert max(firsts) - min(firsts) < 1e-5, "they begin with the same model and batch"


def test_gallery__losses_are_those_of_the_example(tmp_path: Path) -> None:
    path = tmp_path / "losses.json"
    done = processes.python(ROOT / "examples/loss_curves.py", "--json", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (GALLERY / "loss_curves.txt").read_text()
    (run,) = {json.dumps([run["losses"], run["digest"]]) for run in RUNS if run["by"] == "repdl.enable()"}
    now = json.loads(path.read_text())
    assert json.loads(run) == [now["losses"], now["digest"]]
