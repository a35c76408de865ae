"""Ranks as processes: they are forked here, and end together."""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any

import torch

from repdl.launcher.output import Stream
from repdl.launcher.share import Share, share_of
from repdl.overrides.program import NotBegunError
from repdl.overrides.switch import prepare
from repdl.settings.garbage import keep_modules

GRACE = 10.0
"""Seconds that ranks have to end after a signal, before they are killed."""
POLL = 0.5
"""Seconds after which Python looks for a signal that came just before a wait began, or to another thread."""
SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@dataclass
class _Rank:
    number: int
    pid: int
    streams: list[Stream]


@dataclass(frozen=True)
class _Ended:
    """A rank has ended: its status, or minus the number of the signal that ended it."""

    rank: _Rank
    status: int


class _Errors:
    """Which rank raised first, in memory of all: an error of one makes errors of others, which may end before it."""

    def __init__(self) -> None:
        self._first = mmap.mmap(-1, 4)

    def note(self, number: int) -> None:
        """In a rank: have its number here when it raises what ends it."""
        hook = sys.excepthook

        def noted(*args: Any) -> None:
            if self.first() is None:
                self._first[:] = (number + 1).to_bytes(4, "little")
            hook(*args)

        sys.excepthook = noted

    def first(self) -> int | None:
        return int.from_bytes(self._first[:], "little") - 1 if any(self._first[:]) else None


def launch(ranks: int, is_quiet: bool) -> int | None:
    """Begin this process's share of the ranks of a world, and wait for them.

    Args:
        ranks: of the world, which the processes of a launcher such as torchrun begin together.
        is_quiet: whether what other ranks than 0 print is not shown.

    Returns:
        None in each rank, which goes on as a process of its own. Here, after all have ended: 0, or the status of the
        first rank that failed, or 128 and the number of a signal.

    Raises:
        NotBegunError: if the ranks can't be begun.
    """
    if not torch.distributed.is_available():
        raise NotBegunError("--ranks: this torch is built without torch.distributed")
    share = share_of(ranks, os.environ)
    _prepare()
    listener = _rendezvous() if share.is_alone else None
    begun: list[_Rank] = []
    errors = _Errors()
    for number in share.mine:
        rank = _fork(number, share, is_quiet, errors)
        if rank is None:
            _leave(listener, begun)
            return None
        begun.append(rank)
    store = None
    if listener is not None:
        from torch._C import _distributed_c10d as c10d  # not where torch has no distributed

        address, port = listener.getsockname()
        store = c10d.TCPStore(address, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    try:
        return _Watch(share, begun, errors).wait()
    finally:
        del store  # which ranks need until their end


def _prepare() -> None:
    """Import here, once, what every rank needs. Nothing is computed and no GPU is looked for: that starts threads and
    contexts which a forked process does not have."""
    for name in ("torch.nn.parallel", "repdl.distributed"):
        import_module(name)
    prepare()
    keep_modules()


def _leave(listener: socket.socket | None, begun: list[_Rank]) -> None:
    """In a rank: close what belongs to the process that waits."""
    if listener is not None:
        listener.close()
    for rank in begun:
        for stream in rank.streams:
            stream.close()


def _rendezvous() -> socket.socket:
    """The socket of the store by which ranks find each other, and its address in the environment, as torchrun's agent
    has one."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    address, port = listener.getsockname()
    os.environ.update(
        MASTER_ADDR=address, MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RUN_ID="repdl",
        TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0", GROUP_RANK="0", GROUP_WORLD_SIZE="1",
        ROLE_NAME="default",
    )  # fmt: skip
    return listener


def _fork(number: int, share: Share, is_quiet: bool, errors: _Errors) -> _Rank | None:
    """Begin a rank; None in the rank itself."""
    pipes = [os.pipe() for _ in range(2)] if number else []
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the threads of numpy's BLAS, which end themselves
            pid = os.fork()
    except OSError as error:
        raise NotBegunError(f"--ranks: rank {number} of {share.world} can't be begun: {error.strerror}") from error
    if pid == 0:
        for read, _ in pipes:
            os.close(read)
        _become(number, share, [write for _, write in pipes], parent)
        errors.note(number)
        return None
    for _, write in pipes:
        os.close(write)
    streams = [Stream(number, read, target, not is_quiet) for (read, _), target in zip(pipes, (1, 2))]
    return _Rank(number, pid, streams)


def _become(number: int, share: Share, outputs: list[int], parent: int) -> None:
    """Make this process, which was forked just now, a rank."""
    os.setsid()  # a signal of the terminal reaches the process that waits, which hands it on
    _end_with(parent)
    if outputs:
        _move_to(os.open(os.devnull, os.O_RDONLY), 0)
        for output, target in zip(outputs, (1, 2)):
            _move_to(output, target)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)
    os.environ.update(share.environment(number))
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // len(share.local)))
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else the ranks of a program that gives no seed draw the same numbers


def _move_to(descriptor: int, target: int) -> None:
    os.dup2(descriptor, target)
    os.close(descriptor)


def _end_with(parent: int) -> None:
    """Have the system end this process when the one that waits for it ends."""
    set_death_signal = 1
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class _Watch:
    """Waits for ranks, and ends all when one has failed or a signal has come."""

    def __init__(self, share: Share, ranks: list[_Rank], errors: _Errors) -> None:
        self._share, self._ranks, self._errors = share, ranks, errors
        self._running = {rank.number: rank for rank in ranks}
        self._events: SimpleQueue[_Ended | signal.Signals] = SimpleQueue()
        self._status: int | None = None
        """Of all, once one has failed."""
        self._later: int | None = None
        """The status of a rank that failed before the one which raised first had ended."""

    def wait(self) -> int:
        with self._signals():
            for rank in self._ranks:
                for stream in rank.streams:
                    stream.start()
                threading.Thread(target=self._wait_for, args=(rank,), daemon=True).start()
            while self._running:
                self._handle()
        for rank in self._ranks:
            for stream in rank.streams:
                stream.end()
        return self._status or self._later or 0

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Signals are events, but for those that this process was begun to ignore."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        for number in SIGNALS:
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: self._events.put(signal.Signals(number)))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wait_for(self, rank: _Rank) -> None:
        status = _status(rank)
        if status is not None:
            self._events.put(_Ended(rank, status))

    def _handle(self) -> None:
        event = self._event()
        if event is None:
            self._send(signal.SIGKILL)
            return
        if isinstance(event, signal.Signals):
            self._send(signal.SIGKILL if self._status is not None else event)
            self._status = self._status or 128 + event
            return
        rank, status = event.rank, event.status
        if status != 0 or self._status is not None:
            _signal(rank, signal.SIGKILL)  # what it has left behind, such as the workers of a DataLoader
        os.waitpid(rank.pid, 0)
        del self._running[rank.number]
        if status > 0:
            _show_kept(rank)
        if status != 0 and self._status is None:
            shown = status if status > 0 else 128 - status
            if not self._is_cause(status):
                self._later = self._later or shown
                return
            self._status = shown
            self._tell(rank, status)
            self._send(signal.SIGTERM)

    def _event(self) -> _Ended | signal.Signals | None:
        """What happens next; None if nothing does while ranks that have to end could have ended."""
        until = time.monotonic() + GRACE
        while not (self._status or self._later) or time.monotonic() < until:
            with suppress(Empty):
                return self._events.get(timeout=POLL)
        return None

    def _is_cause(self, status: int) -> bool:
        """Whether no rank that has still to be handled failed before one with this status."""
        if status == -signal.SIGKILL:  # which comes from outside, and makes errors of others
            return True
        killed = any(_status(rank, os.WNOHANG) == -signal.SIGKILL for rank in self._running.values())
        return not killed and self._errors.first() not in self._running

    def _tell(self, rank: _Rank, status: int) -> None:
        how = f"ended with status {status}" if status > 0 else f"was ended by {_name(-status)}"
        others = "; ranks that still run here are ended" if self._running else ""
        print(f"repdl run: rank {rank.number} of {self._share.world} {how}{others}", file=sys.stderr, flush=True)

    def _send(self, number: int) -> None:
        for rank in self._running.values():
            _signal(rank, number)


def _status(rank: _Rank, options: int = 0) -> int | None:
    """With which status, or minus the number of which signal, a rank ended; None with WNOHANG if it has not.

    Its number is not given back: `_handle` does that.
    """
    found = os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT | options)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _show_kept(rank: _Rank) -> None:
    """What a silent rank that has failed said last: its traceback."""
    for stream in rank.streams:
        stream.end()
        stream.show_kept()


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the system's that Python does not name
        return f"signal {number}"


def _signal(rank: _Rank, number: int) -> None:
    """To the processes of a rank that has not been waited for."""
    try:
        os.killpg(rank.pid, number)
    except ProcessLookupError:  # it has not begun a group yet
        os.kill(rank.pid, number)


__all__ = ["launch"]
