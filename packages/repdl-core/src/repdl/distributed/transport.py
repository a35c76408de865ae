"""What moves data among the ranks of a group: torch's own backend. Nothing here computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.distributed.shared_memory import SharedMemory


class Transport:
    """The moves that reductions are made of. Unless said otherwise they have ended when a method returns.

    Args:
        backend: of a process group of torch, such as ProcessGroupGloo.
        memory: what all ranks of the group share, if they are on one machine.
    """

    def __init__(self, backend: Any, memory: SharedMemory | None = None) -> None:
        self._backend = backend
        self.memory = memory
        self.size: int = backend.size()
        self.rank: int = backend.rank()
        self.has_pairs = backend.name() == "gloo"
        """Whether two ranks can send to each other at once; NCCL wants such sends in one group."""

    def all_gather(self, output: torch.Tensor, input: torch.Tensor) -> None:
        """`(n,)` of each rank, one after the other in `output`, `(size * n,)`."""
        self._backend._allgather_base(output, input).wait()

    def all_to_all(self, output: torch.Tensor, input: torch.Tensor) -> None:
        """Part r of `input` goes to rank r; part r of `output` comes from there."""
        self._backend.alltoall_base(output, input, [], []).wait()

    def barrier(self) -> None:
        """Return when every rank has come here."""
        self._backend.barrier().wait()

    def exchange(self, sent: torch.Tensor, received: torch.Tensor, peer: int) -> Callable[[], None]:
        """Begin: `sent` goes to a rank, which sends `received`, unless they are empty. The result waits for both."""
        works = [self._backend.send([sent], peer, 0)] if sent.numel() else []
        works += [self._backend.recv([received], peer, 0)] if received.numel() else []

        def wait() -> None:
            for work in works:
                work.wait()

        return wait


__all__ = ["Transport"]
