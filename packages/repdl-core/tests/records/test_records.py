"""Records of runs, and where two of them part."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import recorded_programs as programs
import torch
from recorded_programs import STEPS, recorded, train

import repdl
from repdl.cli import main
from repdl.errors import ArgumentError, RecordError
from repdl.records import Comparison, diff, record
from repdl.records.file import read
from repdl.testing import assert_same_bits


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "base.repdl"
    recorded(path)
    return path


def compared(base: Path, folder: Path, change: str = "", **options: Any) -> Comparison:
    recorded(folder / "other.repdl", change, **options)
    return diff(base, folder / "other.repdl")


def test_record__changes_no_result(tmp_path: Path) -> None:
    expected = dict(train().named_parameters())
    for name, parameter in recorded(tmp_path / "a.repdl").named_parameters():
        assert_same_bits(parameter, expected[name], name)


def test_record__equal_runs(base: Path, tmp_path: Path) -> None:
    found = compared(base, tmp_path)
    assert found.status == 0 and found.findings == [] and found.consequences == 0
    assert found.compared == len(found.a.entries) == len(found.b.entries) > 200


def test_record__what_an_entry_says(base: Path) -> None:
    entries = read(base).entries
    assert [e.number for e in entries] == [*range(len(entries))]
    assert [e.step for e in entries if e.kind == "step"] == [*range(STEPS)]
    named = {(e.name, e.phase, e.module) for e in entries}
    assert {
        ("aten.addmm.default", "forward", "first"),
        ("aten.native_layer_norm.default", "forward", "norm"),
        ("aten.native_layer_norm_backward.default", "backward", "norm"),
        ("aten.bernoulli_.float", "forward", "drop"),
        ("aten.mm.default", "backward", "last"),
        ("Linear", "forward", "last"),
    } <= named
    assert any(e.phase == "optimizer" and e.name == "aten.addcdiv_.default" for e in entries)
    normed = next(e for e in entries if e.name == "aten.native_layer_norm.default")
    made = entries[normed.inputs[0].maker[0]]
    assert made.name == "aten.addmm.default" and made.outputs[0].digest == normed.inputs[0].digest
    assert (
        normed.file.endswith("recorded_programs.py")
        and "self.first(x)" in Path(programs.__file__).read_text().splitlines()[normed.line - 1]
    )
    assert [bool(e.generator) for e in entries if e.name == "aten.bernoulli_.float"] == [True] * STEPS


VIEWS = {
    "aten.t.default": lambda x: x.t(),
    "aten.as_strided.default": lambda x: x.as_strided((3, 3), (1, 0)),
    "aten.expand.default": lambda x: x[:1].expand(3, 3),
    "aten.diagonal.default": lambda x: x.diagonal(),
    "aten.select.int": lambda x: x[0],
    "aten.slice.Tensor": lambda x: x[0:3:2],
    "aten.unsqueeze.default": lambda x: x.unsqueeze(0),
}
"""Of one memory and offset, some of one shape too."""


@pytest.mark.parametrize("first", VIEWS)
def test_record__makers_of_views(first: str, tmp_path: Path) -> None:
    """A tensor, and two views of it, of which each shows something else of the memory."""
    for second in VIEWS:
        with repdl.records.record(tmp_path / "a.repdl"):
            x = torch.ones(3, 3) * 2
            for tensor in (x, VIEWS[first](x), VIEWS[second](x), x):
                torch.neg(tensor)
        entries = read(tmp_path / "a.repdl").entries
        makers = [entries[e.inputs[0].maker[0]] for e in entries if e.name == "aten.neg.default"]
        assert [m.name for m in makers] == ["aten.mul.Tensor", first, second, "aten.mul.Tensor"]


CHANGES = {
    "eps": ("arguments", "aten.native_layer_norm.default", "1e-05) in a", 0),
    "data": ("data", "SingleProcessDataLoaderIter", "the batch that it loads differs", 3),
    "numpy": ("input", "aten.t.default", "something outside torch's dispatcher wrote it after aten.addcdiv_", 3),
    "draw": ("extra", "aten.bernoulli_.float", "b has 3 entries that a lacks", 3),
    "order": ("op", "records_tests.total.default", "inputs agree, and outputs differ: 0, float32[]", 3),
    "rate": ("arguments", "aten.mul_.Tensor", "arguments are", 3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_diff__names_where_runs_part(change: str, base: Path, tmp_path: Path) -> None:
    kind, name, text, step = CHANGES[change]
    found = compared(base, tmp_path, change)
    first = found.findings[0]
    entry = first.b or first.a
    assert found.status == 1 and found.consequences > 0
    assert (first.kind, entry.name, entry.step) == (kind, name, step) and text in first.text, first.text


@pytest.mark.parametrize("given", [False, True], ids=["default", "argument"])
def test_diff__another_state_of_a_generator(given: bool, tmp_path: Path) -> None:
    """torch's own and one that the call names: what the op draws from is what counts."""
    for name, seed in (("a", 1), ("b", 2), ("c", 1)):
        mine = torch.Generator().manual_seed(seed)
        torch.manual_seed(0 if given else seed)
        with record(tmp_path / name):
            torch.rand(3, generator=mine if given else None)
    kinds = [finding.kind for finding in diff(tmp_path / "a", tmp_path / "b").findings]
    assert kinds == ["generator"] and diff(tmp_path / "a", tmp_path / "c").status == 0


def test_diff__module_and_step_levels(tmp_path: Path) -> None:
    for level, kind in (("module", "input"), ("step", "step")):
        recorded(tmp_path / level, level=level)
        found = compared(tmp_path / level, tmp_path, "numpy", level=level)
        assert (found.findings[0].kind, len(found.findings)) == (kind, 1)
        assert found.findings[0].a.step == 3 and {e.kind for e in found.a.entries} <= {"module", "step", "data"}
        assert level == "step" or found.findings[0].a.module == "last"


def test_diff__modules_whose_names_begin_alike(tmp_path: Path) -> None:
    class Shift(torch.nn.Module):
        by = 0.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.by

    model = torch.nn.ModuleDict({"fc1": Shift(), "fc10": Shift()})
    model.forward = lambda x: (model["fc10"](x), model["fc1"](x))  # type: ignore[method-assign]
    for name, by in (("a", 0.0), ("b", 1.0)):
        Shift.by = by
        with repdl.record(tmp_path / name, level="module"):
            model(torch.ones(2))
    found = diff(tmp_path / "a", tmp_path / "b").findings
    assert [finding.a.module for finding in found if finding.a is not None] == ["fc10", "fc1"]


def test_record__steps_and_modules(tmp_path: Path) -> None:
    recorded(tmp_path / "some", steps=range(2, 4), only="n*")
    entries = [e for e in read(tmp_path / "some").entries if e.kind in ("op", "module")]
    assert {e.step for e in entries} == {2, 3} and {e.module for e in entries} == {"norm"}
    with pytest.raises(ArgumentError, match="level is 'ops', expected 'step', 'module', 'op'"):
        recorded(tmp_path / "none", level="ops")


def test_record__enabled_on_every_isa(tmp_path: Path) -> None:
    repdl_cpu = pytest.importorskip("repdl_cpu")
    isas = repdl_cpu.supported_isas()
    for isa in isas:
        with repdl.enabled(), repdl_cpu.use_isa(isa):
            recorded(tmp_path / isa)
    entries = read(tmp_path / isas[0]).entries
    assert any(e.name == "repdl.layer_norm.default" for e in entries)
    for isa in isas[1:]:
        found = diff(tmp_path / isas[0], tmp_path / isa)
        assert found.findings == [] and found.compared == len(entries)


def test_record__a_run_that_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), repdl.record(tmp_path / "a.repdl"):
        torch.ones(2) + 1
        1 / 0  # noqa: B018
    found = read(tmp_path / "a.repdl")
    assert found.ended and found.error == "ZeroDivisionError: division by zero" and len(found.entries) == 2


def test_record__a_run_that_was_killed(base: Path, tmp_path: Path) -> None:
    """What reached the file can be read, and is said to be a part."""
    cut = tmp_path / "cut.repdl"
    cut.write_bytes(base.read_bytes()[: base.stat().st_size // 2])
    found = diff(base, cut)
    assert not found.b.ended and 0 < found.compared == len(found.b.entries) < len(found.a.entries)
    assert found.status == 2 and found.findings == []


def test_record__files_that_are_none(base: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no record")
    with pytest.raises(RecordError, match="is damaged"):
        read(tmp_path / "text")
    (tmp_path / "other").write_bytes(zlib.compress(b"{}\n", wbits=31))
    with pytest.raises(RecordError, match="is no record of this version"):
        read(tmp_path / "other")
    with pytest.raises(RecordError, match="can't be read: No such file"):
        diff(base, tmp_path / "nothing")
    with pytest.raises(RecordError, match="can't be written: No such file"), repdl.record(tmp_path / "no/folder"):
        pass


def test_record__a_disk_that_is_full() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with (
        pytest.raises(RecordError, match="record: /dev/full can't be written: No space left"),
        repdl.record("/dev/full"),
    ):
        pass
    assert (torch.ones(2) + 1).tolist() == [2, 2]


def test_record__places_of_a_long_run_are_bounded(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repdl.records.recorder._PLACES", 40)
    assert compared(base, tmp_path).findings == []


def test_diff__other_programs(base: Path, tmp_path: Path) -> None:
    with repdl.record(tmp_path / "other"):
        for _ in range(9):
            torch.ones(3, 3).cumsum(0)
    (found,) = diff(base, tmp_path / "other").findings
    assert found.kind in ("program", "extra")


def test_diff__environments(base: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        found = compared(base, tmp_path)
    finally:
        torch.set_num_threads(threads)
    assert found.environment["threads"] == (threads, threads + 1)


def test_cli__record_and_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, torch\nx = torch.ones(3) * float(sys.argv[1])\nprint(x.exp().sum().item())\n")
    monkeypatch.setattr("sys.argv", ["repdl"])
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    for name, options, value in (("a", [], "1"), ("b", [], "2"), ("c", ["--enable"], "1"), ("d", ["--enable"], "1")):
        assert main(["record", "-o", str(tmp_path / name), *options, str(program), value]) == 0
    assert main(["record", "-o", str(tmp_path / "e"), "--contract", "sequential", str(program), "1"]) == 2
    assert "expected it beside them" in capsys.readouterr().err and not (tmp_path / "e").exists()
    assert main(["diff", str(tmp_path / "c"), str(tmp_path / "d")]) == 0
    assert "none differs" in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    told = capsys.readouterr().out
    assert "first difference: aten.mul.Tensor" in told and "arguments are (_, 1.0) in a, (_, 2.0) in b" in told
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["findings"][0]["kind"] == "arguments" and not found["equal"]
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "e")]) == 2
    assert "can't be read" in capsys.readouterr().err
