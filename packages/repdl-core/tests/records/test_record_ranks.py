"""Records of several ranks: a file of each, and what came from another rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import ranks
import recorded_ranks

from repdl.cli import main
from repdl.records import diff
from repdl.records.file import read
from repdl.records.ranks import of_ranks

pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks")
    ranks.run(recorded_ranks.recorded, 2, str(path))
    return path


def test_record__a_file_of_each_rank(folder) -> None:
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.rank{rank}.repdl" for name in ("a", "b", "other") for rank in (0, 1)
    }
    assert of_ranks(folder / "a.repdl") == {rank: folder / f"a.rank{rank}.repdl" for rank in (0, 1)}
    assert of_ranks(folder / "a.rank0.repdl") == of_ranks(folder / "none.repdl") == {}
    for rank, path in of_ranks(folder / "a.repdl").items():
        known = read(path)
        assert (known.environment["rank"], known.environment["world size"]) == (str(rank), "2")
        sums = [entry for entry in known.entries if entry.name == "c10d.allreduce_.default"]
        assert len(sums) == recorded_ranks.STEPS
        assert all(tensor.digest is None for entry in sums for tensor in entry.outputs)
        assert all("0x" not in entry.arguments for entry in known.entries)


def test_diff__equal_ranks(folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(folder / "a.repdl"), str(folder / "b.repdl")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line[:7] for line in told] == ["rank 0:", "rank 1:"] and all("none differs" in line for line in told)


def test_diff__a_batch_of_another_rank(folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(folder / "a.repdl"), str(folder / "other.repdl")]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"the runs part in step {recorded_ranks.AT}, of rank 0, 1"
    assert "record -o a.op.repdl --steps 1:2 --values train.py" in told[-1]
    here, there = (diff(folder / f"a.rank{rank}.repdl", folder / f"other.rank{rank}.repdl") for rank in (0, 1))
    (came,) = here.findings  # on rank 0 nothing else is new: neither modules nor steps
    assert (
        came.kind == "input" and "it came by c10d.allreduce_.default" in came.text and came.a.step == recorded_ranks.AT
    )
    assert (there.findings[0].kind, there.findings[0].a.name) == ("input", "aten.copy_.default")
    assert main(["diff", str(folder / "a.repdl"), str(folder / "other.repdl"), "--json"]) == 1
    shape = json.loads(capsys.readouterr().out)["ranks"]
    assert [shape[rank]["findings"][0]["kind"] for rank in ("0", "1")] == ["input", there.findings[0].kind]


@pytest.mark.parametrize(("rank_0", "status"), [("other", 1), ("b", 2)])
def test_diff__a_rank_that_differs_counts_before_one_that_was_cut_off(
    folder, rank_0: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.rank0.repdl").write_bytes((folder / f"{rank_0}.rank0.repdl").read_bytes())
    whole = (folder / "a.rank1.repdl").read_bytes()
    (tmp_path / "c.rank1.repdl").write_bytes(whole[: len(whole) * 3 // 4])
    for rank, expected in ((0, 1 if rank_0 == "other" else 0), (1, 2)):
        assert diff(folder / f"a.rank{rank}.repdl", tmp_path / f"c.rank{rank}.repdl").status == expected
    assert main(["diff", str(folder / "a.repdl"), str(tmp_path / "c.repdl")]) == status
    capsys.readouterr()


def test_diff__other_ranks(folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.rank0.repdl").write_bytes((folder / "a.rank0.repdl").read_bytes())
    assert main(["diff", str(folder / "a.repdl"), str(tmp_path / "c.repdl")]) == 2
    assert "a has ranks [0, 1], b has [0]: other ranks" in capsys.readouterr().err
    assert main(["diff", str(folder / "a.repdl"), str(folder / "b.repdl"), "--html", "page.html"]) == 2
    assert "name its two files" in capsys.readouterr().err
