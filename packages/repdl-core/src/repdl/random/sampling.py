"""The order of a data set: a sampler whose order depends on seed and epoch alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sized
from typing import Any

from torch.utils.data import Sampler
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from repdl.errors import ArgumentError, UnsupportedError, check, check_bool, check_range
from repdl.generators.generator import STREAMS, Generator, checked_seed
from repdl.random.discrete import randperm
from repdl.registry.arguments import as_int

__all__ = ["EpochSampler", "sampler"]

_FIRST = STREAMS // 2
"""The stream of epoch 0: those below are left to generators."""


class EpochSampler(Sampler[int]):
    """The indices of a data set, in an order of its own each epoch; see `sampler`."""

    def __init__(self, data_source: Sized, seed: int, shuffle: bool = True) -> None:
        if not isinstance(data_source, Sized):
            raise ArgumentError(
                f"sampler: data_source is {type(data_source).__name__}, expected an object with a length"
            )
        check_bool("sampler", shuffle=shuffle)
        self.data_source, self.seed, self.shuffle = data_source, checked_seed("sampler", seed), shuffle
        self.epoch = 0
        self._next = 0  # where the next iteration begins
        self._given = 0  # how many indices of the epoch were given out
        self._ahead = False  # whether that is more than the training has seen

    def __len__(self) -> int:
        """How many indices an epoch has."""
        return len(self.data_source)

    def order(self) -> list[int]:
        """All indices of this epoch: `randperm` in stream 2**47 + epoch of the seed; 0, 1, ... without shuffling."""
        if not self.shuffle:
            return list(range(len(self)))
        own = Generator(self.seed, stream=_FIRST + self.epoch)
        order: list[int] = randperm(len(self), generator=own, device="cpu").tolist()
        return order

    def __iter__(self) -> Iterator[int]:
        begin, self._next = self._next, 0
        self._given, self._ahead = begin, _taken_in_advance()
        for index in self.order()[begin:]:
            self._given += 1
            yield index

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the iterations from now on, which begin at their first index.

        Raises:
            OutOfRangeError: if `epoch` is negative, or 2**47 or more.
        """
        epoch = as_int("set_epoch", "epoch", epoch)
        check_range(
            "set_epoch", 0 <= epoch < _FIRST, lambda: f"epoch is {epoch}, expected an integer from 0 to 2**47 - 1"
        )
        self.epoch, self._next, self._given, self._ahead = epoch, 0, 0, False

    def state_dict(self, seen: int | None = None) -> dict[str, Any]:
        """What `load_state_dict` needs to go on in the middle of an epoch.

        Args:
            seen: how many examples of the epoch the training has used: batches so far * batch size. None is how many
                were given out; a `DataLoader` with workers takes some in advance, and so needs the number.

        Raises:
            OutOfRangeError: if `seen` is none of an epoch.
            UnsupportedError: if `seen` is None and a `DataLoader` with workers has begun the epoch.
        """
        if seen is None and self._ahead:
            raise UnsupportedError(
                "state_dict: seen is None, and a DataLoader with workers takes examples in advance; expected the "
                "number that the training has used in this epoch"
            )
        seen = self._given if seen is None else as_int("state_dict", "seen", seen)
        check_range("state_dict", 0 <= seen <= len(self), lambda: f"seen is {seen}, expected 0 to {len(self)}")
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "length": len(self),
            "epoch": self.epoch,
            "seen": seen,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration begin where `state_dict` was called, and those after it at their first index.

        Raises:
            ShapeError, OutOfRangeError: if it is the state of another seed, length or kind of order; nothing changes.
        """
        name, own = "load_state_dict", self.state_dict(0)
        check(name, own.keys() == state_dict.keys(), lambda: f"keys are {[*state_dict]}, expected {[*own]}")
        for key in ("seed", "shuffle", "length"):
            check(
                name,
                state_dict[key] == own[key],
                f"{key} is {state_dict[key]}, expected {own[key]}, that of this sampler; make one with the same",
            )
        seen = as_int(name, "seen", state_dict["seen"])
        check_range(name, 0 <= seen <= len(self), lambda: f"seen is {seen}, expected 0 to {len(self)}")
        self.set_epoch(state_dict["epoch"])
        self._next = self._given = seen


def _taken_in_advance() -> bool:
    """Whether a `DataLoader` with workers asks for the indices: it has `BatchSampler`, or nothing, in between."""
    frame = sys._getframe(2)
    for _ in range(4):
        if isinstance(frame.f_locals.get("self"), _MultiProcessingDataLoaderIter):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def sampler(data_source: Sized, seed: int, shuffle: bool = True) -> EpochSampler:
    """A sampler for `DataLoader(sampler=...)`: an order that depends on seed and epoch alone, on every machine,
    whatever the number of workers and whatever else is drawn.

    Call `set_epoch(epoch)` before each epoch, as with `torch.utils.data.DistributedSampler`. `state_dict(seen)` and
    `load_state_dict` stop and go on in the middle of an epoch.

    Raises:
        ArgumentError, OutOfRangeError: if `data_source` has no length, or for a seed that is not 0 to 2**64 - 1.

    Contract: random v1. Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.Sampler
    """
    return EpochSampler(data_source, seed, shuffle)
