"""Ranks of one process, for tests and plans: they run the code of `repdl.distributed`, the transport is simulated.

A rank is a thread, and one of them runs at a time: a thousand take seconds.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from repdl.distributed.algorithms import Algorithm
from repdl.distributed.shared_memory import SharedMemory, bytes_of
from repdl.distributed.transport import Transport


class World:
    """What the simulated ranks share. They take turns, in the order of their numbers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = SharedMemory(bytearray(bytes_of(size)), size)
        self.boxes: dict[tuple[int, int], deque[torch.Tensor]] = defaultdict(deque)
        self._inputs: dict[int, torch.Tensor] = {}
        self._stacked: torch.Tensor | None = None
        self._waiting: deque[threading.Lock] = deque()
        self._errors: list[BaseException] = []
        self._ended = threading.Semaphore(0)

    def run(self, ranks: list[Callable[[], None]]) -> None:
        """All ranks to their end. Raises what the first one raised."""
        self._waiting.extend(threading.Lock() for _ in ranks)
        for rank, lock in zip(ranks, list(self._waiting)):
            lock.acquire()
            threading.Thread(target=self._run, args=(rank, lock), daemon=True).start()
        self._pass_on()
        for _ in ranks:
            self._ended.acquire()
        if self._errors:
            raise self._errors[0]

    def turn(self) -> bool:
        """Have all other ranks run until they wait or end; whether there are any."""
        if not self._waiting:
            return False
        mine = threading.Lock()
        mine.acquire()
        self._waiting.append(mine)
        self._pass_on()
        mine.acquire()
        if self._errors:
            raise RuntimeError("another rank has failed")
        return True

    def stacked(self, rank: int, input: torch.Tensor) -> torch.Tensor:
        """The inputs of all ranks, `(size, n)`; every rank gives its own."""
        self._inputs[rank], self._stacked = input.clone(), None
        self.turn()
        if self._stacked is None:
            self._stacked = torch.stack([self._inputs[rank] for rank in range(self.size)])
        found = self._stacked
        self.turn()
        return found

    def _run(self, rank: Callable[[], None], lock: threading.Lock) -> None:
        lock.acquire()
        try:
            rank()
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._pass_on()
            self._ended.release()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()


class Simulated(Transport):
    """The moves of a rank, counted as gloo makes them: every part of a collective move is a message."""

    def __init__(self, world: World, rank: int) -> None:
        self.world, self.size, self.rank, self.has_pairs = world, world.size, rank, True
        self.memory = world.memory
        self.messages = self.bytes = 0

    def all_gather(self, output: torch.Tensor, input: torch.Tensor) -> None:
        self._count(self.size - 1, input.nbytes)
        output.copy_(self.world.stacked(self.rank, input).view(-1))

    def all_to_all(self, output: torch.Tensor, input: torch.Tensor) -> None:
        self._count(self.size - 1, input.nbytes // self.size)
        parts = self.world.stacked(self.rank, input).view(self.size, self.size, -1)
        output.copy_(parts[:, self.rank].reshape(-1))

    def barrier(self) -> None:
        self.world.turn()

    def exchange(self, sent: torch.Tensor, received: torch.Tensor, peer: int) -> Callable[[], None]:
        if sent.numel():
            self._count(1, sent.nbytes)
            self.world.boxes[self.rank, peer].append(sent.clone())

        def wait() -> None:
            box = self.world.boxes[peer, self.rank]
            while received.numel() and not box:
                if not self.world.turn():
                    raise RuntimeError(f"rank {self.rank} waits for rank {peer}, which has ended")
            if received.numel():
                received.copy_(box.popleft())

        return wait

    def _count(self, messages: int, nbytes: int) -> None:
        self.messages += messages
        self.bytes += messages * nbytes


@dataclass(frozen=True)
class Outcome:
    """What simulated ranks have after a reduction, and what one of them has sent most."""

    tensors: list[torch.Tensor]
    messages: int
    bytes: int


def simulate(algorithm: Algorithm, tensors: torch.Tensor, op: str) -> Outcome:
    """Have an algorithm reduce `tensors`, `(size, n)`, row r of rank r."""
    world, results = World(len(tensors)), list(tensors.clone())
    transports = [Simulated(world, rank) for rank in range(world.size)]

    def run(rank: int) -> Callable[[], None]:
        return lambda: algorithm(transports[rank], results[rank], op)

    world.run([run(rank) for rank in range(world.size)])
    return Outcome(results, max(t.messages for t in transports), max(t.bytes for t in transports))


__all__ = ["Outcome", "Simulated", "World", "simulate"]
