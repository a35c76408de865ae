"""torch.compile(backend="repdl") of what collectives are in: the bits of the program that is not compiled."""

from __future__ import annotations

import compiled_programs as programs
import pytest
import ranks

pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)


def _check(found: dict[str, tuple[str, str]]) -> None:
    assert all(plain == compiled for plain, compiled in found.values()), found


@pytest.mark.parametrize("world", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_compiled_ranks__collectives_in_a_graph(world: int) -> None:
    found = ranks.run(programs.functions, world)
    for of_rank in found:
        _check(of_rank)
    assert len({of_rank["_reduce_scatter"] for of_rank in found}) == world


def test_compiled_ranks__not_without_enable() -> None:
    (told,) = ranks.run(programs.not_enabled, 1)
    assert "_c10d_functional.all_reduce" in told and "under repdl.enable() it is the contract's" in told, told


@pytest.mark.nightly
def test_compiled_ranks__models() -> None:
    for of_rank in ranks.run(programs.models, 3, limit=280.0):
        _check(of_rank)
        assert len(set(of_rank.values())) == len(of_rank) - 1
