"""Contracts and backends by thread, task and block; first use from several threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl.registry.backend import Backend, get_backend, register_backend, unregister_backend
from repdl.settings.scopes import in_scopes_of_here
from repdl.testing import assert_same_bits, processes, uniform


def current() -> str:
    return str(repdl.get_contract())


def in_thread(function: Callable[[], Any]) -> Any:
    """What the function returns in a new thread."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_scope__of_another_thread_is_not_seen() -> None:
    with repdl.use_contract("sequential"):
        assert (current(), in_thread(current)) == ("sequential", "v1")
    with repdl.use_backend("reference"):
        assert in_thread(lambda: repdl.registry.backend.BACKENDS.scope()) == ""


def test_scope__of_another_thread_is_not_seen_in_its_context() -> None:
    """In which free-threaded Python starts each thread, and `asyncio.to_thread` runs functions."""
    with repdl.use_contract("sequential"):
        context = contextvars.copy_context()
        assert in_thread(lambda: context.run(current)) == "v1"

        async def elsewhere() -> str:
            return await asyncio.to_thread(current)

        assert asyncio.run(elsewhere()) == "v1"


def test_scope__goes_to_another_thread_with_a_function() -> None:
    """As with a reduction that is not waited for."""

    def both() -> tuple[str, str]:
        return current(), repdl.registry.backend.BACKENDS.scope()

    with repdl.use_contract("sequential"), repdl.use_backend("reference"):
        carried = in_scopes_of_here(both)
    assert in_thread(lambda: (carried(), both())) == (("sequential", "reference"), ("v1", ""))


def test_scope__threads_that_overlap() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with repdl.use_contract("sequential"):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    assert current() == "v1"
    with repdl.use_contract("dot_chunk=10"):
        leave.set()
        thread.join()
        assert current().startswith("dot_chunk=10")
    assert current() == "v1"


@pytest.mark.parametrize("first_out", [0, 1])
def test_scope__blocks_that_end_in_another_order(first_out: int) -> None:
    blocks = [repdl.use_contract("sequential"), repdl.use_contract("dot_chunk=10")]
    for block in blocks:
        block.__enter__()
    blocks[first_out].__exit__(None, None, None)
    assert current().split(",")[0] == ("dot_chunk=10", "sequential")[first_out]
    blocks[1 - first_out].__exit__(None, None, None)
    assert current() == "v1"


def test_scope__generators_that_overlap() -> None:
    def inside(name: str) -> Iterator[None]:
        with repdl.use_contract(name):
            yield

    first, second = inside("sequential"), inside("dot_chunk=10")
    next(first)
    next(second)
    first.close()
    second.close()
    assert current() == "v1"


def test_scope__generator_closed_by_another_thread() -> None:
    def inside() -> Iterator[None]:
        with repdl.use_contract("sequential"):
            yield

    generator = inside()
    next(generator)
    in_thread(generator.close)  # type: ignore[attr-defined]
    assert current() == "v1"


def test_scope__tasks() -> None:
    seen: dict[str, list[str]] = {"sequential": [], "dot_chunk=10,sum_lanes=64,sum_block=1024": []}

    async def task(name: str) -> None:
        with repdl.use_contract(name):
            for _ in range(3):
                await asyncio.sleep(0)
                seen[name].append(current())

    async def run() -> None:
        await asyncio.gather(*map(task, seen))

    asyncio.run(run())
    assert seen == {name: [name] * 3 for name in seen}
    assert current() == "v1"


@pytest.mark.parametrize("way", ["function", "compiled", "compiled by repdl", "enabled"])
def test_scope__tasks_compute_by_their_own(way: str) -> None:
    """Calls that were compiled or recorded outside of all scopes, in tasks whose scopes are open at once."""
    x = uniform(1, 4097)
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sum() if "enabled" in way or "repdl" in way else repdl.ops.sum(x)

    call = function
    if "compiled" in way:
        call = torch.compile(function, backend="repdl" if "repdl" in way else "eager")
    names = {"sequential": "sequential", "none": "v1", "dot_chunk=10,sum_lanes=8,sum_block=1024": "lanes", "v1": "v1"}
    wanted = {name: repdl.ops.sum(x, contract="v1" if name == "none" else name) for name in names}
    assert len({float(y) for y in wanted.values()}) == 3

    async def task(name: str) -> None:
        with contextlib.nullcontext() if name == "none" else repdl.use_contract(name):
            for _ in range(4):
                assert_same_bits(call(x), wanted[name], f"{way}, in a task under {name}")
                await asyncio.sleep(0)

    async def run() -> None:
        await asyncio.gather(*map(task, names))

    async def idle() -> None:
        with repdl.use_contract("v1"):
            await asyncio.sleep(0)

    with repdl.enabled() if way in ("enabled", "compiled by repdl") else contextlib.nullcontext():
        for _ in range(2):
            for _ in range(4):
                assert_same_bits(call(x), wanted["v1"], way)
            asyncio.run(run())
        torch._dynamo.reset()  # code that was compiled in a task asks at each call
        loop = asyncio.new_event_loop()
        begun = loop.create_task(idle())
        with repdl.use_contract("sequential"):  # which the task, begun outside of it, does not see, and does not end
            loop.run_until_complete(begun)
            assert_same_bits(call(x), wanted["sequential"], f"{way}, after a task")
        loop.close()


def test_set_contract__is_for_all_threads_and_for_processes_started_later() -> None:
    before = os.environ.get("REPDL_CONTRACT")
    try:
        repdl.set_contract("sequential")
        assert (current(), in_thread(current)) == ("sequential", "sequential")
        with repdl.use_contract("v1"):
            assert (current(), in_thread(current)) == ("v1", "sequential")
        child = "import repdl; print(repdl.get_contract())"
        assert processes.python("-c", child).stdout.strip() == "sequential"
    finally:
        repdl.set_contract("v1")
        os.environ.pop("REPDL_CONTRACT")
        if before is not None:
            os.environ["REPDL_CONTRACT"] = before


def test_scope__backward_follows_the_forward() -> None:
    """Also in another thread, where neither the contract nor the backend of the forward is in force."""
    calls: list[str] = []
    reference = get_backend("reference")

    def watched(*args: Any) -> Any:
        calls.append(threading.current_thread().name)
        return reference.ops["matmul"](*args)

    register_backend(Backend("watched", "cpu", {**reference.ops, "matmul": watched}, -1000))
    try:
        x, y = uniform(1, 3, 600).requires_grad_(), uniform(2, 600, 2).requires_grad_()
        with repdl.use_backend("watched"), repdl.use_contract("sequential"):
            output = repdl.ops.mm(x, y)
        cotangent = uniform(3, 3, 2)
        gradients = in_thread(lambda: torch.autograd.grad(output, (x, y), cotangent))
        assert len(calls) == 3 and len(set(calls)) == 2
    finally:
        unregister_backend("watched")
    a, b = x.detach(), y.detach()
    assert_same_bits(output.detach(), repdl.ops.mm(a, b, contract="sequential"))
    assert_same_bits(gradients[0], repdl.ops.mm(cotangent, b, transB=True, contract="sequential"))


class Contracts(torch.utils.data.Dataset[str]):
    """Items that are the contract of the worker that makes them."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> str:
        return current()


def test_scope__workers_of_a_data_loader() -> None:
    loader = torch.utils.data.DataLoader(Contracts(), num_workers=1, multiprocessing_context="fork", batch_size=None)
    with repdl.use_contract("sequential"):
        assert list(loader) == ["sequential", "sequential"]
    assert list(loader) == ["v1", "v1"]


def test_discovery__first_use_from_many_threads() -> None:
    code = """
        import threading, torch, repdl
        errors, barrier = [], threading.Barrier(8)

        def use():
            barrier.wait()
            try:
                repdl.ops.mm(torch.ones(2, 2), torch.ones(2, 2))
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not errors, errors
    """
    for _ in range(2):
        done = processes.python("-c", textwrap.dedent(code))
        assert done.returncode == 0, done.stderr
