"""`repdl.enable`: blocks that are nested, overlap or can't begin."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest
import torch
from enabling import same, values

import repdl
from repdl import ops
from repdl.errors import ArgumentError, ContractError, UnsupportedError
from repdl.overrides import kernels, switch
from repdl.settings.garbage import uncollected
from repdl.testing import processes


def test_enable__nothing_is_left_behind() -> None:
    x = values(1000)
    before = x.sum(), torch.backends.mha.get_fastpath_enabled(), repdl.get_contract()
    with pytest.raises(ZeroDivisionError), repdl.enabled(contract="sequential"):
        with repdl.enabled():
            pass
        assert str(repdl.get_contract()) == "sequential"
        assert same(x.sum(), ops.sum(x, contract="sequential"))
        raise ZeroDivisionError
    assert (x.sum(), torch.backends.mha.get_fastpath_enabled(), repdl.get_contract()) == before
    x.lgamma()
    repdl.disable()


@pytest.mark.parametrize("collects", [True, False])
def test_enable__garbage_is_collected_as_before(monkeypatch: pytest.MonkeyPatch, collects: bool) -> None:
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with repdl.enabled():
            assert gc.isenabled() is collects

        def fails(*args: object) -> None:
            assert not gc.isenabled()
            raise MemoryError

        monkeypatch.setattr(switch, "kernels", fails)
        with pytest.raises(MemoryError):
            repdl.enable()
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="Python searches more rarely")
def test_enable__garbage_of_a_loop_of_blocks_is_found() -> None:
    """By Python itself: what is young where a block begins is not taken for old, block after block."""

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    assert gc.isenabled()
    alive = weakref.WeakSet[Cycle]()
    gc.unfreeze()  # what conftest.py has frozen
    try:
        for _ in range(10):
            with repdl.enabled():
                alive.add(Cycle())
        assert len(alive) < 10
    finally:
        gc.freeze()


def test_garbage__what_a_program_has_frozen_stays_so() -> None:
    frozen: list[object] = []
    gc.freeze()
    with uncollected(once=True):
        pass
    assert not any(each is frozen for each in gc.get_objects()) and gc.isenabled()


def test_enable__a_block_that_cannot_begin_leaves_the_outer_one() -> None:
    with repdl.enabled(contract="sequential"):
        for arguments, error in (({"contract": "none"}, ContractError), ({"on_uncovered": "ignore"}, ArgumentError)):
            with pytest.raises(error):
                repdl.enable(**arguments)
            with pytest.raises(error), repdl.enabled(**arguments):
                pass
        assert str(repdl.get_contract()) == "sequential"
        with pytest.raises(UnsupportedError):
            torch.ones(2).lgamma()
    torch.ones(2).lgamma()


def test_enable__a_session_that_fails_leaves_the_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(1000)
    with repdl.enabled(contract="sequential"):

        class Failing(switch._Session):
            def _put_new(self) -> None:
                super()._put_new()
                if self.on_uncovered == "warn":
                    raise MemoryError

        monkeypatch.setattr(switch, "_Session", Failing)
        with pytest.raises(MemoryError):
            repdl.enable("v1", on_uncovered="warn")
        assert same(x.sum(), ops.sum(x, contract="sequential"))
        with pytest.raises(UnsupportedError):
            x.lgamma()
    x.lgamma()


def test_enable__a_later_block_finds_what_the_first_one_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with repdl.enabled():
        pass
    found: list[str] = []
    of_op = kernels.of_op
    monkeypatch.setattr(kernels, "of_op", lambda name, *given: found.append(name) or of_op(name, *given))
    with repdl.enabled():
        pass
    aten = [name for name in found if name.startswith("aten::")]
    assert 0 < len(aten) < 100  # of some 2000: somebody, torch among them, has put kernels into these


def test_enable__blocks_of_threads_overlap() -> None:
    entered, leave = threading.Event(), threading.Event()

    def run() -> None:
        with repdl.enabled(contract="sequential", on_uncovered="warn"):
            entered.set()
            leave.wait()

    before, thread = repdl.get_contract(), threading.Thread(target=run)
    with repdl.enabled():
        thread.start()
        entered.wait()
        assert str(repdl.get_contract()) == "sequential"
        with pytest.warns(UserWarning, match="lgamma"):
            torch.ones(2).lgamma()
    with pytest.warns(UserWarning, match="lgamma"):
        torch.ones(2).lgamma()  # the other block is still open
    leave.set()
    thread.join()
    torch.ones(2).lgamma()
    assert repdl.get_contract() == before


def test_enable__an_earlier_block_that_ends_first() -> None:
    first, second = repdl.enabled(contract="sequential"), repdl.enabled(contract="dot_chunk=2,sum_lanes=2,sum_block=2")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert repdl.get_contract().dot_chunk == 2
    with pytest.raises(UnsupportedError):
        torch.ones(2).lgamma()
    second.__exit__(None, None, None)
    assert str(repdl.get_contract()) == "v1"
    torch.ones(2).lgamma()


def test_enable__disable_ends_every_block() -> None:
    repdl.enable("sequential")
    with repdl.enabled():
        repdl.enable(on_uncovered="warn")
        repdl.disable()
        torch.ones(2).lgamma()
        assert str(repdl.get_contract()) == "v1"
    torch.ones(2).lgamma()


def test_enable__the_default_contract_is_not_that_of_a_scope() -> None:
    with repdl.use_contract("sequential"):
        repdl.enable()
        repdl.disable()
    assert str(repdl.get_contract()) == "v1"


def test_enable__inner_blocks_have_the_contract_that_is_set() -> None:
    with repdl.enabled(contract="sequential"):
        with repdl.enabled():
            assert str(repdl.get_contract()) == "sequential"
        repdl.set_contract("v1")
        with repdl.enabled(contract="sequential"):
            pass
        assert str(repdl.get_contract()) == "v1"


_RACE = """
import sys, threading, time, torch, repdl
sys.setswitchinterval(0.5)  # a thread that has found a kernel waits until this one sleeps
x, halves, problems, stopped = torch.ones(5), torch.zeros(5, dtype=torch.float16), [], threading.Event()

def run():
    while not stopped.is_set():
        try:
            halves.copy_(x)
            if (x.to(torch.float64).to(torch.int32) + x * 2 + x.abs()).tolist() != [4] * 5:
                problems.append("other numbers")
        except BaseException as error:
            problems.append(repr(error))

threads = [threading.Thread(target=run) for _ in range(4)]
for thread in threads:
    thread.start()
rounds, end = 0, time.monotonic() + 30  # others may keep this one waiting for long
while rounds < 40 and time.monotonic() < end:
    repdl.enable()
    stopped.wait(0.002)
    repdl.disable()
    rounds += 1
stopped.set()
for thread in threads:
    thread.join()
assert not problems, problems
"""


def test_enable__kernels_are_there_for_threads_that_have_found_them() -> None:
    """Torch's dispatcher holds none for them: the memory of one that is freed is soon that of another op's."""
    run = processes.python("-c", _RACE)
    assert run.returncode == 0, run.stderr[-2000:]
