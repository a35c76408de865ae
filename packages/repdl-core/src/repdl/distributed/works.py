"""Where a reduction runs: at once, or in order behind those that were begun before it, while the program goes on.

A reduction is several moves with sums between them. What is not waited for runs in a thread of the group. On CPUs all
reductions move data by a second backend, so that their moves don't come between those of the program, and so that one
rank may wait for a reduction while another goes on.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from queue import SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from repdl.distributed.handshake import timeout_of
from repdl.distributed.shared_memory import share
from repdl.distributed.transport import Transport
from repdl.errors import UnsupportedError
from repdl.settings.scopes import in_scopes_of_here

Run = Callable[[Transport], None]


class ReductionWork(c10d.Work):
    """What `async_op=True` gives. `wait` raises what the reduction raised.

    Args:
        future: what Python waits for.
        of_cpp: what C++ waits for, if it is another one.
    """

    def __init__(self, future: torch.futures.Future[Any], of_cpp: torch.futures.Future[Any] | None = None) -> None:
        super().__init__()
        self._future, self._of_cpp, self._ended = future, of_cpp or future, threading.Event()
        future.add_done_callback(lambda _: self._ended.set())

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Until the result is there, or for so long."""
        seconds = timeout.total_seconds()
        if not self._ended.wait(seconds if seconds > 0 else None):
            raise dist.DistBackendError(f"repdl.distributed: a reduction did not end within {seconds} s")
        self._future.wait()
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Of the list of tensors."""
        return self._of_cpp

    def is_completed(self) -> bool:
        """Whether the result, or an error, is there."""
        return bool(self._future.done())


class _Holder(dist.ProcessGroup):
    """Torch's way to have C++ keep a work of Python: it wraps what a method of a group returns."""

    def __init__(self) -> None:
        super().__init__(0, 1)  # type: ignore[call-arg]
        self._thread = threading.local()

    def barrier(self, options: Any) -> Any:  # type: ignore[override]
        return self._thread.work

    def held(self, work: ReductionWork) -> Any:
        self._thread.work = work
        try:
            return dist.ProcessGroup.barrier(self, c10d.BarrierOptions())
        finally:
            del self._thread.work


@dataclass
class _Job:
    run: Run
    future: torch.futures.Future[Any]
    result: list[torch.Tensor]
    execute: Callable[[_Job, Transport], None]


class _Worker:
    """Runs the reductions of a group, one after the other: the backend by which they move data, and a thread."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        store, rank, size, timeout = group.get_group_store(), group.rank(), group.size(), timeout_of(group)
        backend = c10d.ProcessGroupGloo(c10d.PrefixStore("repdl/moves", store), rank, size, timeout)
        memory = share(c10d.PrefixStore("repdl/memory", store), rank, size, timeout)
        self._queue = _Queue(Transport(backend, memory))
        self._thread: threading.Thread | None = None
        self._before: threading.Thread | None = None
        weakref.finalize(group, self._queue.jobs.put, None)

    def begin(self, job: _Job) -> None:
        """Have the thread run it."""
        with self._queue.changed:
            if self._thread is None:
                arguments = self._queue, self._before
                self._thread = threading.Thread(target=_serve, args=arguments, name="repdl.distributed", daemon=True)
                self._thread.start()
                _threads.add(self._thread)
            self._queue.begun += 1
            self._queue.jobs.put(job)

    def end(self) -> None:
        """Have the thread end behind what it has to do; what is begun later has another one, which waits for it."""
        with self._queue.changed:
            if self._thread is not None:
                self._queue.jobs.put(None)
                self._before, self._thread = self._thread, None

    def run(self, run: Run) -> None:
        """Run it in this thread, once all that were begun have ended."""
        queue = self._queue
        with queue.changed:
            queue.changed.wait_for(lambda: queue.begun == 0)
            with torch.no_grad():
                run(queue.transport)


class _Queue:
    """What a thread has to do; it keeps no group alive."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.changed = threading.Condition()
        self.begun = 0
        """How many jobs have not ended."""


class _Thread(threading.local):
    serves = False


_THREAD = _Thread()
"""`serves`: whether this is the thread of a group, which calls the callbacks of futures too."""


def _serve(queue: _Queue, before: threading.Thread | None) -> None:
    if before is not None:
        before.join()
    _THREAD.serves = True
    while (job := queue.jobs.get()) is not None:
        job.execute(job, queue.transport)
        del job  # its tensors are the caller's
        with queue.changed:
            queue.begun -= 1
            queue.changed.notify_all()


def _run(job: _Job, transport: Transport) -> None:
    try:
        with torch.no_grad():
            job.run(transport)
    except Exception as error:
        job.future.set_exception(error)
    else:
        job.future.set_result(job.result)


_workers: WeakKeyDictionary[dist.ProcessGroup, _Worker] = WeakKeyDictionary()
_threads: WeakSet[threading.Thread] = WeakSet()
_PATIENCE = 5.0
"""Seconds that a program which ends waits for reductions that other ranks may never take part in."""


def _end_threads() -> None:
    """End the threads of groups while Python still runs: one that ends later, in a destructor of C++, aborts the
    process."""
    until = time.monotonic() + _PATIENCE
    for worker in [*_workers.values()]:
        worker.end()
    for thread in [*_threads]:
        thread.join(max(0.0, until - time.monotonic()))


threading._register_atexit(_end_threads)  # type: ignore[attr-defined]
_streams: dict[torch.device, torch.cuda.Stream] = {}


def start(
    group: dist.ProcessGroup, device: torch.device, run: Run, result: list[torch.Tensor], later: bool
) -> ReductionWork:
    """Run a reduction, or with `later` have it run.

    Args:
        run: moves and computes, by the transport that it is given.
        result: what the future of the work holds.
        later: whether the caller does not wait for it.

    Raises:
        UnsupportedError: in a callback, whose place in the order of reductions is not fixed.
    """
    if _THREAD.serves:
        raise UnsupportedError(
            "repdl.distributed: a reduction is begun in the callback of another one's future, expected behind a wait: "
            "whether it comes before others of the group depends on time; begin it where the first one is waited for"
        )
    backend = group._get_backend(device)
    if device.type == "cuda":
        return _on_stream(Transport(backend), device, run, result)
    future: torch.futures.Future[Any] = torch.futures.Future()
    if group.size() == 1:
        with torch.no_grad():
            run(Transport(backend))
        future.set_result(result)
        return ReductionWork(future)
    worker = _workers.get(group)
    if worker is None:
        worker = _workers[group] = _Worker(group)
    if later:
        work = ReductionWork(future, future.then(torch.futures.Future.value))
        worker.begin(_Job(run, future, result, in_scopes_of_here(_run)))
        return work
    worker.run(run)
    future.set_result(result)
    return ReductionWork(future)


def _on_stream(transport: Transport, device: torch.device, run: Run, result: list[torch.Tensor]) -> ReductionWork:
    """At once, on a stream of its own: there the waits of torch's backend are the stream's, not the host's."""
    stream = _streams.setdefault(device, torch.cuda.Stream(device))
    stream.wait_stream(torch.cuda.current_stream(device))
    future: torch.futures.Future[Any] = torch.futures.Future(devices=[device])
    with torch.cuda.stream(stream), torch.no_grad():
        for tensor in result:
            tensor.record_stream(stream)
        run(transport)
        future.set_result(result)
    return ReductionWork(future)


_holder: _Holder | None = None


def held(work: ReductionWork) -> Any:
    """The work as an object of C++ that keeps it alive, for torch's dispatcher."""
    global _holder
    if _holder is None:
        _holder = _Holder()
    return _holder.held(work)


__all__ = ["ReductionWork", "held", "start"]
