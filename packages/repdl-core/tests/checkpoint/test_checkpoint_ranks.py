"""Several ranks save and load one checkpoint, each its own part; what one can't do, all refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import AVAILABLE, NEEDS, run
from ranks_that_save import (
    fail_in_the_background,
    fail_on_rank_1,
    forget_to_wait,
    keep_two,
    load_damaged,
    load_with,
    save_in_the_background,
    stop_and_go_on,
)

from repdl import checkpoint
from repdl.checkpoint import diff
from repdl.errors import CheckpointError

pytestmark = pytest.mark.skipif(not AVAILABLE, reason=NEEDS)


def test_ranks__stop_and_go_on(tmp_path: Path) -> None:
    """In the middle of the second epoch; another number of ranks is refused."""
    (digests, *others) = run(stop_and_go_on, 2, tmp_path, 5)
    assert digests[0] == digests[1] and others == [digests]
    assert diff(tmp_path / "whole", tmp_path / "again") == []
    for size in (1, 3):
        for said in run(load_with, size, tmp_path):
            assert f"is of 2 ranks, and here are {size}; expected the same number" in said
    with pytest.raises(CheckpointError, match="is of 2 ranks, and here are 1"):
        checkpoint.load(tmp_path / "whole" / "step-3")


def test_ranks__parameters_that_are_shared_among_them(tmp_path: Path) -> None:
    """FSDP2: each rank saves its part of every DTensor. And the control."""
    (digests, *others) = run(stop_and_go_on, 2, tmp_path, 5, "", "fsdp2")
    assert digests[0] == digests[1] and others == [digests]
    assert diff(tmp_path / "whole", tmp_path / "again") == []
    whole, again = run(stop_and_go_on, 2, tmp_path, 5, "optimizer", "fsdp2")[0]
    assert whole != again


@pytest.mark.parametrize("left_out", ["optimizer", "sampler"])
def test_ranks__controls_differ(left_out: str, tmp_path: Path) -> None:
    whole, again = run(stop_and_go_on, 2, tmp_path, 5, left_out)[0]
    assert whole != again


def test_ranks__keep_and_latest(tmp_path: Path) -> None:
    """Parts go with the checkpoint that names them; one whose part is damaged is not the latest."""
    names, latest = run(keep_two, 2, tmp_path)[0]
    files = [name.rpartition(".")[0] if "rank" in name else name for name in names.split(",")]
    parts = [f".step-{step}.rank-{rank}" for step in (3, 4) for rank in (0, 1)]
    assert files == [".repdl-checkpoint.lock", *parts, "step-3", "step-4"]
    assert latest == str(tmp_path / "step-4") == str(checkpoint.latest(tmp_path))
    (part,) = tmp_path.glob(".step-4.rank-1.*")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="passed over"):
        assert checkpoint.latest(tmp_path) == tmp_path / "step-3"


def test_ranks__what_one_cannot_do_all_refuse(tmp_path: Path) -> None:
    for function, message in ((load_damaged, "the bytes of "), (fail_on_rank_1, "extra is builtins.builtin_function")):
        folder = tmp_path / function.__name__
        folder.mkdir()
        (first, first_same), (second, second_same) = run(function, 2, folder)
        assert message in second and first.startswith("checkpoint: rank 1 failed, and so all ranks: "), first
        assert message in first and first_same and second_same


def test_ranks__in_the_background(tmp_path: Path) -> None:
    """Each rank writes while training goes on; `wait` writes the file that names what they wrote."""
    for saved, digest, only_after, loads in run(save_in_the_background, 2, tmp_path):
        assert saved == digest and only_after and loads
    assert diff(tmp_path / "b", tmp_path / "c") == []


def test_ranks__an_error_in_the_background(tmp_path: Path) -> None:
    """Nobody has waited: it is not lost, on no rank; and the checkpoint is not there."""
    (first, latest, names), (second, *same) = run(fail_in_the_background, 2, tmp_path)
    assert first == "checkpoint: rank 1 failed, and so all ranks: division by zero" and second == "division by zero"
    assert latest == str(tmp_path / "c") and same == [latest, names]
    assert not any(name.startswith((".b.", "b")) for name in names.split(","))
    for said in run(forget_to_wait, 2, tmp_path):
        assert f"{tmp_path / 'a'} of 2 ranks was not finished, expected that each of them calls wait()" in said
