"""The position in the data: the batches of a `DataLoader`, counted.

Where a `DataLoader` is in an epoch hangs on the generators at its beginning: they give the order, and the seeds of the
worker processes. So their states are kept, and an epoch that goes on begins with them once more, drops the batches that
were seen, and then puts the generators where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from repdl.checkpoint import generators
from repdl.errors import CheckpointError, UnsupportedError
from repdl.random.sampling import EpochSampler

State = dict[str, Any]


class Batches:
    """The batches of a `torch.utils.data.DataLoader`, for `save(sampler=...)` and `load(sampler=...)`.

    Iterate over it in place of the loader. `epoch` counts the epochs that came to their end, and `set_epoch` of loader,
    sampler and data set is called with it when one begins. After `load` the next iteration goes on behind the batches
    that were seen::

        batches = Batches(loader)
        for epoch in range(batches.epoch, 3):
            for x, y in batches:
                ...

    Args:
        loader: a `DataLoader`, or torchdata's `StatefulDataLoader`.
        reload: whether worker processes load the batches that were seen once more, so that their generators get where
            they were. False skips them: for data whose samples depend on their index alone, in an order of
            `repdl.random.sampler`, or with a `StatefulDataLoader`. Without workers nothing is loaded again, but for an
            `IterableDataset`.

    A data set that has numbers of its own begins them anew in `set_epoch`, or makes those of a sample from its index:
    `repdl.random.Generator(seed, stream=1 + index)`.

    Attributes:
        epoch: how many epochs came to their end.
        seen: how many batches of this epoch were given out.

    Raises:
        CheckpointError: if `loader` is no `DataLoader`, or with `reload=False` has an order that can't be skipped in.
        UnsupportedError: for `persistent_workers` and `reload`, whose generators go on from epoch to epoch.

    Source: https://docs.pytorch.org/docs/stable/data.html
    """

    def __init__(self, loader: DataLoader[Any], *, reload: bool = True) -> None:
        if not isinstance(loader, DataLoader):
            raise CheckpointError(f"Batches: loader is {type(loader).__name__}, expected a torch.utils.data.DataLoader")
        if reload and loader.persistent_workers:
            raise UnsupportedError(
                "Batches: persistent_workers, whose generators go on from epoch to epoch, so that all epochs would "
                "have to be loaded again; expected persistent_workers=False, or reload=False"
            )
        self._has_state = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        if not reload and not self._has_state and not isinstance(loader.sampler, EpochSampler):
            raise CheckpointError(
                f"Batches: reload is False and loader.sampler is {type(loader.sampler).__name__}, expected one of "
                f"repdl.random.sampler, or a torchdata StatefulDataLoader"
            )
        self.loader, self.reload = loader, reload
        self.epoch = self.seen = 0
        self._start: State | None = None  # the generators when this epoch began
        self._loaded: State | None = None  # a position where the next iteration goes on
        self._entangled = False

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        loaded, self._loaded = self._loaded, None
        for generator, kept in zip(self._own(), loaded["own"] if loaded else ()):
            generator.set_state(kept)
        if loaded and loaded["start"] is not None:
            iterator = self._resumed(loaded)
        else:
            self._start, self.seen = self._capture(), 0
            self._set_epoch()
            iterator = iter(self.loader)
        while True:
            batch = self._next(iterator)
            if batch is _END:
                break
            self.seen += 1
            yield batch
        self.epoch, self.seen, self._start = self.epoch + 1, 0, None

    def _next(self, iterator: Iterator[Any]) -> Any:
        """The next batch; notes whether the data draws from generators that the training draws from, too."""
        if not self._in_process() or self._entangled:
            return next(iterator, _END)
        before = generators.fingerprint(generators.capture())
        batch = next(iterator, _END)
        self._entangled = batch is not _END and generators.fingerprint(generators.capture()) != before
        return batch

    def _in_process(self) -> bool:
        """Whether the data is a stream that this process itself reads."""
        return isinstance(self.loader.dataset, IterableDataset) and not self.loader.num_workers

    def _resumed(self, loaded: State) -> Iterator[Any]:
        """The epoch from its beginning, behind the batches that were seen."""
        now = self._capture()
        self._restore(loaded["start"])
        self._set_epoch()
        if not self.reload:
            self._position(loaded)
        iterator = iter(self.loader)
        if self.reload:
            self._skip(iterator)
        self._restore(now)
        return iterator

    def _position(self, loaded: State) -> None:
        """Let the loader or its sampler begin behind what was seen."""
        if self._has_state:
            self.loader.load_state_dict(loaded["loader"])  # type: ignore[attr-defined]
            return
        sampler: Any = self.loader.sampler
        size = self.seen * (self.loader.batch_size or 1)
        sampler.load_state_dict({**sampler.state_dict(0), "epoch": self.epoch, "seen": min(size, len(sampler))})

    def _skip(self, iterator: Any) -> None:
        plain = type(self.loader) is DataLoader and not self.loader.num_workers
        by_index = plain and not isinstance(self.loader.dataset, IterableDataset)
        for i in range(self.seen):
            try:
                iterator._next_index() if by_index else next(iterator)
            except StopIteration:
                raise CheckpointError(
                    f"Batches: {self.seen} batches of epoch {self.epoch} were seen, and the loader has {i}, expected "
                    f"the same data and batch size as in the checkpoint"
                ) from None

    def _set_epoch(self) -> None:
        parts: list[Any] = [self.loader, self.loader.sampler, self.loader.batch_sampler, self.loader.dataset]
        for part in parts:
            if hasattr(part, "set_epoch"):
                part.set_epoch(self.epoch)

    def _own(self) -> list[torch.Generator]:
        """The generators of the loader and its sampler, without torch's default one."""
        found = (self.loader.generator, getattr(self.loader.sampler, "generator", None))
        unique = {id(g): g for g in found if isinstance(g, torch.Generator) and g is not torch.default_generator}
        return list(unique.values())

    def _capture(self) -> State:
        return {"generators": generators.capture(), "own": [g.get_state() for g in self._own()]}

    def _restore(self, state: State) -> None:
        generators.restore(state["generators"])
        for generator, kept in zip(self._own(), state["own"]):
            generator.set_state(kept)

    def state_dict(self) -> State:
        """The position: epoch, batches seen, and the generators when the epoch began.

        Raises:
            UnsupportedError: for an `IterableDataset` that this process reads, and that draws from the default
                generators: what it drew then hangs on what the training drew in between.
        """
        if self._loaded is not None:
            return dict(self._loaded)
        if self._entangled and self._start is not None:
            raise UnsupportedError(
                "Batches: the IterableDataset draws from a default generator in the process that trains, so its place "
                "can't be found again; expected a generator of its own, or num_workers=1"
            )
        state = {
            "epoch": self.epoch,
            "seen": self.seen,
            "start": self._start,
            "own": [g.get_state() for g in self._own()],
        }
        if self._has_state and not self.reload and self._start is not None:
            state["loader"] = self.loader.state_dict()  # type: ignore[attr-defined]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration go on at a position.

        Raises:
            CheckpointError: if it is that of another kind of loader; nothing changes.
        """
        own, here = len(state_dict.get("own", ())), len(self._own())
        if not {"epoch", "seen", "start", "own"} <= state_dict.keys() or own != here:
            raise CheckpointError(
                f"Batches: a position with the keys {[*state_dict]} and {own} generators of the loader, expected one "
                f"of Batches.state_dict with {here}"
            )
        if not self.reload and self._has_state and state_dict["start"] is not None and "loader" not in state_dict:
            raise CheckpointError("Batches: the position was saved with reload=True, expected reload=True here too")
        self._loaded = dict(state_dict)
        self.epoch, self.seen, self._start = state_dict["epoch"], state_dict["seen"], state_dict["start"]


_END = object()

__all__ = ["Batches"]
