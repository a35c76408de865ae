"""DistributedDataParallel under `repdl.enable()`: one digest by any buckets, algorithms, threads and instructions."""

from __future__ import annotations

import ddp_programs
import pytest
import ranks

pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)


@pytest.mark.parametrize("world", [3, *(pytest.param(world, marks=pytest.mark.nightly) for world in (2, 4))])
def test_ddp__one_digest(world: int) -> None:
    found = ranks.run(ddp_programs.transports, world)[0]
    assert len(set(found)) == 1, dict(zip(ddp_programs.TRANSPORTS, found))
    baseline = ranks.run(ddp_programs.some_transports, world, environment={"REPDL_CPU_ISA": "baseline"})[0]
    assert {*baseline} == {*found}


def test_ddp__torch_alone_has_several() -> None:
    """The runs differ in the order of reductions: without that, the tests here would show nothing."""
    assert len(set(ranks.run(ddp_programs.torch_alone, 3)[0])) > 1


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.nightly), 3])
def test_ddp__programs(world: int) -> None:
    """Accumulation, batch normalisation, layers that are not used, gradients that travel in 16 bits."""
    found = ranks.run(ddp_programs.programs, world)[0]
    assert all(large == small for large, small in found), found
    assert len({large for large, _ in found}) >= len(found) - (world == 2), found  # 1 / 2 is exact


def test_ddp__uneven_inputs() -> None:
    first, second = ranks.run(ddp_programs.uneven, 2, 25.0, 0.01)
    assert first == second and len(set(first)) == 1
    assert first != ranks.run(ddp_programs.uneven, 3, 25.0, 0.01)[0]


def test_ddp__power_sgd() -> None:
    """A hook that begins reductions in callbacks raises on some rank, and no rank waits for ever."""
    found = ranks.outcomes(ddp_programs.power_sgd, 2, timeout=5.0)
    told = [outcome.error or "" for outcome in found]
    assert any("begun in the callback of another one's future" in text for text in told), told
    assert "did not end" not in told, told
