"""Values that a record keeps: how far two runs are apart, and an op that is computed again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from recorded_programs import STEPS, recorded

import repdl
from repdl.cli import main
from repdl.errors import RecordError
from repdl.records import diff, rerun
from repdl.records.calls import read_arguments, spelled_arguments
from repdl.records.file import read
from repdl.records.values import Values, beside
from repdl.tensors.apart import apart

nan, inf = float("nan"), float("inf")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("values") / "a.repdl"
    recorded(path, steps=range(2, 4), values=True)
    return path


@pytest.mark.parametrize(
    ("a", "b", "count", "ulp", "nans", "index"),
    [
        ([1.0, 2.0, 4.0], [1.0, 2.0 + 2**-22, 4.0 - 2**-22], 2, 1, 0, (1,)),
        ([1.0, 2.0], [1.0 + 2**-20, 2.0 + 2**-21], 2, 8, 0, (0,)),
        ([0.0, 1e-45], [-0.0, -1e-45], 2, 3, 0, (1,)),  # -1e-45, -0, 0, 1e-45
        ([nan, 1.0], [1.0, 1.0 + 2**-23], 2, 1, 1, (1,)),
        ([nan, 1.0], [1.0, 1.0], 1, None, 1, (0,)),
        ([3.4028234663852886e38], [inf], 1, 1, 0, (0,)),
        ([-inf], [inf], 1, 2 * 0x7F800000 + 1, 0, (0,)),
    ],
)
def test_apart__floats(a, b, count, ulp, nans, index) -> None:
    found = apart(torch.tensor(a), torch.tensor(b))
    assert found is not None
    assert (found.count, found.elements, found.ulp, found.nans, found.index) == (count, len(a), ulp, nans, index)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_apart__neighbours_of_every_dtype(dtype) -> None:
    a = torch.tensor([[1.0, -1.0, 0.0], [3.0, 5.0, 7.0]], dtype=dtype)
    b = torch.nextafter(a, torch.full_like(a, -8.0))
    found = apart(a.t(), b.t())
    assert found is not None and (found.count, found.ulp, found.index) == (6, 2, (2, 0))  # over -0
    assert apart(a, a.clone()) is None


def test_apart__others() -> None:
    found = apart(torch.tensor([1, 5, 7]), torch.tensor([1, 4, 9]))
    assert found is not None and found.text("here", "there") == "2 of 3 elements differ: at [1] 5 here, 4 there"
    found = apart(torch.tensor([1 + 2j, 3j]), torch.tensor([1 + 2j, 3.5j]))
    assert found is not None and (found.count, found.elements, found.index) == (1, 4, (1, 1))


@pytest.mark.parametrize(
    ("change", "text"),
    [("order", "0, float32[] (1 of 1 elements differ, by "), ("numpy", "float32[3, 8] (1 of 24 elements differ, by ")],
)
def test_diff__says_how_far(change, text, kept, tmp_path: Path) -> None:
    recorded(tmp_path / "b.repdl", change, steps=range(2, 4), values=True)
    recorded(tmp_path / "c.repdl", change, steps=range(2, 4))
    first = diff(kept, tmp_path / "b.repdl").findings[0]
    assert text in first.text and "ulp at most: at [" in first.text
    assert "ulp" not in diff(kept, tmp_path / "c.repdl").findings[0].text


def test_values__each_tensor_once_with_its_strides(kept) -> None:
    entries, values = read(kept).entries, Values(kept)
    noted = [tensor for entry in entries if entry.step in (2, 3) for tensor in (*entry.inputs, *entry.outputs)]
    assert all(values.tensor(tensor) is not None for tensor in noted)
    assert any(tensor.strides for tensor in noted)
    for tensor in noted:
        whole = values.tensor(tensor)
        assert whole is not None and whole.shape == tensor.shape
        assert tensor.strides in (None, whole.stride())
    sizes = {tensor.digest: Values(kept).raw(tensor.digest).nbytes for tensor in noted}
    states = {
        entry.generator: values.raw(entry.generator).nbytes
        for entry in entries
        if entry.generator and entry.step in (2, 3)
    }
    assert beside(kept).stat().st_size == sum(size + 16 for size in (sizes | states).values())
    before = [tensor for entry in entries if entry.step < 2 for tensor in entry.outputs]
    assert before and all(values.tensor(tensor) is None or tensor.digest in sizes for tensor in before)


def test_values__a_record_without_them_leaves_none_of_another(tmp_path: Path) -> None:
    recorded(tmp_path / "a", values=True)
    assert beside(tmp_path / "a").exists()
    recorded(tmp_path / "a")
    assert not beside(tmp_path / "a").exists()


def test_values__cut_file(kept, tmp_path: Path) -> None:
    (tmp_path / "a.repdl").write_bytes(kept.read_bytes())
    whole = beside(kept).read_bytes()
    digests = [
        t.digest for entry in read(kept).entries for t in entry.outputs if Values(kept).raw(t.digest) is not None
    ]
    for length in (len(whole) - 1, len(whole) // 2, 17, 15, 0):
        beside(tmp_path / "a.repdl").write_bytes(whole[:length])
        cut = Values(tmp_path / "a.repdl")
        known = {digest for digest in digests if cut.raw(digest) is not None}
        assert all((cut.raw(digest) == Values(kept).raw(digest)).all() for digest in known)
        assert len(known) < len(set(digests)) and (length < 100 or known)


@pytest.mark.nightly
def test_rerun__torch_gives_every_op_again(kept) -> None:
    ops = [entry for entry in read(kept).entries if entry.kind == "op"]
    assert any(entry.generator for entry in ops) and any(entry.phase == "backward" for entry in ops)
    for op in ops:
        if op.name.startswith("aten."):
            _, results = rerun(kept, op.number)
            recorded_, by_torch, _ = results
            assert (by_torch.by, by_torch.digests, by_torch.error) == ("torch", recorded_.digests, ""), op


def test_rerun__each_way_begins_with_the_inputs_of_the_record(tmp_path: Path) -> None:
    """Also of an op that writes into them; each of these is exact."""
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 4.0, 8.0])
    with repdl.record(tmp_path / "a", values=True):
        x.add_(y)
        x.mul_(y)
        torch.sub(x, y, out=y)
        x.zero_()
    ops = [entry for entry in read(tmp_path / "a").entries if entry.kind == "op"]
    assert [op.name for op in ops] == ["aten.add_.Tensor", "aten.mul_.Tensor", "aten.sub.out", "aten.zero_.default"]
    for op in ops:
        _, results = rerun(tmp_path / "a", op.number)
        assert [result.by for result in results] == ["the record", "torch", "RepDL"]
        assert len({result.digests for result in results}) == 1 and not any(result.error for result in results), op


def test_rerun__repdl_gives_an_enabled_run_again(tmp_path: Path) -> None:
    with repdl.enabled():
        recorded(tmp_path / "a", steps=range(1), values=True)
    ops = [entry for entry in read(tmp_path / "a").entries if entry.kind == "op" and entry.name.startswith("repdl.")]
    assert {"repdl.layer_norm.default", "repdl.mm.default"} & {op.name for op in ops}
    computed = 0
    for op in ops:
        _, results = rerun(tmp_path / "a", op.number)
        assert [result.by for result in results] == ["the record", "RepDL"]
        assert results[1].error or results[1].digests == results[0].digests, op
        computed += not results[1].error
    assert computed > len(ops) // 2


def test_rerun__what_it_can_not(kept, tmp_path: Path) -> None:
    step = next(entry for entry in read(kept).entries if entry.kind == "step")
    for number, text in ((step.number, "it is a step"), (10**6, "there is none")):
        with pytest.raises(RecordError, match=text):
            rerun(kept, number)
    recorded(tmp_path / "without")
    op = next(entry for entry in read(tmp_path / "without").entries if entry.kind == "op")
    with pytest.raises(RecordError, match="were not kept, expected a record made with --values"):
        rerun(tmp_path / "without", op.number)


def test_rerun__commands(kept, capsys: pytest.CaptureFixture[str]) -> None:
    op = next(e for e in read(kept).entries if e.name == "aten.native_layer_norm.default" and e.step == 2)
    assert main(["rerun", str(kept), "--op", str(op.number)]) == 0
    told = capsys.readouterr().out
    assert "output 2, float32[4, 1]" in told and "as in the record" in told and "in norm" in told
    assert main(["rerun", str(kept), "--op", str(op.number), "--json"]) == 0
    shape = json.loads(capsys.readouterr().out)
    assert [result["by"] for result in shape["results"]] == ["the record", "torch", "RepDL"]
    assert main(["rerun", str(kept), "--op", "0"]) == 2
    assert "expected an op, but it is a data" in capsys.readouterr().err


def test_arguments__are_read_as_they_were(tmp_path: Path) -> None:
    a, b = torch.ones(2), torch.zeros(3)
    for args, kwargs in (
        ((a, [1, -2], None, True), {"alpha": -0.5}),
        (([a, b], 1), {"dtype": torch.float64, "memory_format": torch.preserve_format}),
        ((a, inf, -inf, 1 - 2j, 1e-30), {"out": [b, a], "mode": "it's", "device": torch.device("cpu")}),
        ((), {}),
        ((a, b), {}),
    ):
        text = spelled_arguments(args, kwargs)
        again, words = read_arguments(
            text, [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if torch.is_tensor(t)]
        )
        assert repr(again) == repr(list(args)) and repr(words) == repr(kwargs)
    with pytest.raises(RecordError, match=r"__import__.* is not known"):
        read_arguments("__import__('os').system('true')", [])


def test_record__every_so_many_steps(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import recorded_programs\nrecorded_programs.train()\n")
    for option, expected in ((["--every", "2"], {0, 2, 4}), (["--steps", "1:5", "--every", "3"], {1, 4})):
        assert main(["record", "-o", str(tmp_path / "a"), *option, str(program)]) == 0
        assert {e.step for e in read(tmp_path / "a").entries if e.kind == "op" and e.step < STEPS} == expected


def test_diff__says_which_record_shows_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, recorded_programs\nrecorded_programs.train(*sys.argv[1:2])\n")
    found = {}
    for level in ("step", "module", "op"):
        for name, change in (("a", []), ("b", ["numpy"])):
            command = ["record", "-o", str(tmp_path / f"{name}.repdl"), "--level", level, str(program), *change]
            assert main(command) == 0
        assert main(["diff", str(tmp_path / "a.repdl"), str(tmp_path / "b.repdl")]) == 1
        found[level] = capsys.readouterr().out.splitlines()[-1]
    start = "to see more, in each of the two settings: repdl record -o a.op.repdl --steps 3:4"
    assert found["step"] == f"{start} {program}"
    assert found["module"] == f"{start} --only 'last*' {program}"
    assert found["op"].startswith(start) and found["op"].endswith(f"--values {program}")
