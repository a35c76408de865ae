"""`repdl try`: a program in several settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repdl.cli import main
from repdl.records import trial
from repdl.records.trial import Setting, settings, try_program

TRAIN = """
import os
import torch

torch.manual_seed(SEED)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    loss = model(torch.ones(3, 4) * OTHER).square().mean()
    loss.backward()
    optimizer.step()
"""


def program(folder: Path, seed: str = "0", other: str = "1", more: str = "") -> str:
    path = folder / "program.py"
    path.write_text(TRAIN.replace("SEED", seed).replace("OTHER", other) + more)
    return str(path)


def use(monkeypatch: pytest.MonkeyPatch, *threads: int) -> None:
    """Only these settings: each is a process that imports torch."""
    kinds = [Setting(f"{n} threads", on, {"OMP_NUM_THREADS": str(n)}) for on in (False, True) for n in threads]
    monkeypatch.setattr(trial, "settings", lambda: kinds)


def test_settings() -> None:
    found = settings()
    assert {s.enabled for s in found} == {True, False} and len({tuple(s.variables.items()) for s in found}) >= 2


@pytest.mark.nightly
def test_try__one_result(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 1, 2)
    assert main(["try", "--json", program(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"] == {"torch": 1, "repdl": 1} and found["refused"] == [] and found["torch_parts"] is None
    assert [run["status"] for run in found["runs"]] == [0] * 4 and all(run["megabytes"] > 50 for run in found["runs"])


def test_try__results_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that looks at the number of threads; where torch's runs part is a product in the second step."""
    use(monkeypatch, 1, 2)
    other = "(1 + torch.get_num_threads() * step)"
    found = try_program(program(tmp_path, other=other), [], False, tmp_path / "kept")
    assert (len(found.results(False)), len(found.results(True)), found.status) == (2, 2, 1)
    assert "1 threads and 2 threads: aten.mul.Tensor" in found.parts and "step 1, forward" in found.parts
    assert "program.py:9" in found.parts and "arguments are (_, 2) in a, (_, 3) in b" in found.parts
    assert (tmp_path / "kept/3.repdl").exists()


def test_try__refused_ops_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, 1)
    more = "torch.linalg.svdvals(torch.ones(2, 2))\ntorch.fft.fft(torch.ones(4))\n"
    assert main(["try", program(tmp_path, more=more)]) == 1
    refused = [line for line in capsys.readouterr().out.splitlines() if line.startswith("refused: ")]
    assert len(refused) == 2 and "_linalg_svd" in refused[0] and "fft" in refused[1] and "program.py:13" in refused[1]


def test_try__a_program_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, 1)
    assert main(["try", program(tmp_path, more="raise OSError('no data')")]) == 2
    told = capsys.readouterr().out
    assert "the program failed" in told and "OSError: no data" in told
