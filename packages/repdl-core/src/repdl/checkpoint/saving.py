"""`save` and `async_save`: a state into a file."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch

from repdl.checkpoint import atomic, format, ranks
from repdl.checkpoint.folder import check_keep, remove_old
from repdl.checkpoint.progress import progress_bar
from repdl.checkpoint.state import Encoded, Run, collect
from repdl.contract import get_contract
from repdl.errors import CheckpointError
from repdl.overrides.switch import is_enabled

Path_ = str | os.PathLike[str]
T = TypeVar("T")
Objects = Any
"""One object of a kind, a mapping from names to such objects, or None."""
_previous: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The digest of the checkpoint that an object was last saved in or loaded from."""
_running: list[Saving] = []


@dataclass(frozen=True)
class _Job:
    """What is written where, by which of how many ranks."""

    path: Path
    state: Encoded
    facts: Mapping[str, Any]
    run: Run
    keep: int | None
    progress: bool
    rank: int
    ranks: int

    def write(self) -> str:
        """Write the file, or those of all ranks, and return the digest."""
        with ExitStack() as held:
            self.lock(held)
            return self.finish(self.together(self.write_state))

    def together(self, what: Callable[[], T]) -> T:
        """What a function returns here, once it has returned on every rank that writes."""
        return what() if self.ranks == 1 else ranks.together(what)

    def lock(self, held: ExitStack) -> None:
        """Let no other process write into the folder until the end of a block."""
        self.together(lambda: None if self.rank else held.enter_context(atomic.locked(self.path.parent)))

    def write_state(self) -> str:
        """Write the state of this rank, without a word to the others."""
        size = sum(t.numel() * t.element_size() for t in self.state.tensors.values())
        alone = self.ranks == 1
        with progress_bar(f"save {self.path.name}", size, self.progress) as advance:
            return atomic.replace(
                self.path if alone else ranks.part(self.path, self.rank, "0" * 16),
                lambda file: format.write(
                    file, self.state.tree, self.state.tensors, self.facts, previous_of(self.run), advance
                ),
                None if alone else lambda digest: ranks.part(self.path, self.rank, digest),
            )

    def finish(self, digest: str) -> str:
        """Write the file that names those of all ranks, where there are several, and remove old ones."""
        if self.ranks > 1:
            digests = ranks.gathered(digest)
            digest = ranks.gathered(self.together(lambda: "" if self.rank else self._write_index(digests)))[0]
        follow(self.run, digest)
        self.together(lambda: None if self.rank else self._remove_old())
        return digest

    def _write_index(self, digests: list[str]) -> str:
        facts, previous = {**self.facts, "ranks": len(digests)}, previous_of(self.run)
        return atomic.replace(self.path, lambda file: format.write(file, ranks.index(digests), {}, facts, previous))

    def _remove_old(self) -> None:
        if self.keep is not None:
            remove_old(self.path, self.keep)
        ranks.remove_unnamed(self.path.parent)


class Saving:
    """A checkpoint that is written while training goes on."""

    def __init__(self, job: _Job) -> None:
        self.path = job.path
        self._job, self._held = job, ExitStack()
        self._digest: str | None = None
        self._error: BaseException | None = None
        self._waiting, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=self._write, name=f"repdl.checkpoint {job.path.name}")

    def done(self) -> bool:
        """Whether this process has written its file, or has failed.

        Ranks may differ in that: whether a rank calls `wait` must not depend on it.
        """
        return not self._thread.is_alive()

    def wait(self) -> str:
        """Wait until the file is there; returns its digest.

        With several ranks of torch.distributed every rank calls it: they exchange the digests of their files here, and
        only then is the checkpoint there.

        Raises:
            CheckpointError: if it could not be written, on any rank.
        """
        with self._waiting:
            self._thread.join()
            if not self._ended:
                if self in _running:  # not after an interrupt
                    _running.remove(self)
                if self._job.ranks > 1:
                    self._finish()
                self._ended = True
        if self._error is not None:
            raise self._error
        return str(self._digest)

    def _start(self) -> None:
        """Begin to write; with several ranks each its own file."""
        try:
            if self._job.ranks > 1:
                self._job.lock(self._held)
            self._job.together(self._thread.start)
        except BaseException:
            if self._thread.ident is not None:
                self._thread.join()
            self._held.close()
            raise
        _running.append(self)

    def _write(self) -> None:
        try:
            self._digest = self._job.write() if self._job.ranks == 1 else self._job.write_state()
        except BaseException as error:
            self._error = error

    def _own(self) -> str:
        """The digest of the file of this rank."""
        if self._error is not None:
            raise self._error
        return str(self._digest)

    def _finish(self) -> None:
        """Write the file that names those of all ranks."""
        with self._held:
            try:
                if ranks.size() != self._job.ranks:
                    raise CheckpointError(
                        f"checkpoint: {self.path} is of {self._job.ranks} ranks, and here are {ranks.size()} now; "
                        f"expected wait() before torch.distributed ends"
                    )
                self._digest = self._job.finish(ranks.together(self._own))
            except Exception as error:
                self._error = error

    def _end(self) -> None:
        """Wait for it at the end of a program, without the other ranks, which may have ended."""
        if self._job.ranks == 1:
            self.wait()
            return
        with self._held:
            self._thread.join()
        raise CheckpointError(
            f"checkpoint: {self.path} of {self._job.ranks} ranks was not finished, expected that each of them calls "
            f"wait() of what async_save returned before the program ends" + (f"; {self._error}" if self._error else "")
        )


def previous_of(run: Run) -> str | None:
    """The digest of the checkpoint that a run went on from."""
    return next((_previous[v] for _, _, v in run.each(*run.objects) if _referable(v) and v in _previous), None)


def follow(run: Run, digest: str) -> None:
    """Note the checkpoint that a run goes on from."""
    for _, _, value in run.each(*run.objects):
        if _referable(value):
            _previous[value] = digest


def _referable(value: Any) -> bool:
    return getattr(type(value), "__weakrefoffset__", 0) != 0 and type(value).__hash__ is not None


def save(
    path: Path_,
    *,
    model: Objects = None,
    optimizer: Objects = None,
    scheduler: Objects = None,
    sampler: Objects = None,
    scaler: Objects = None,
    generator: Objects = None,
    extra: Any = None,
    gradients: bool = True,
    keep: int | None = None,
    progress: bool = False,
) -> str:
    """Write the state of a run into a file, for `load`; returns the digest of the state.

    The states of the default generators of torch (on GPUs too), numpy, Python and RepDL are always part of it, and so
    are the contract and the digest of the checkpoint that the run went on from. The file is safetensors. It is written
    beside an old one of the same name, flushed, and renamed: whatever happens, a whole file is there, the old one or
    the new one.

    With torch.distributed every rank calls it with the same path, in a folder that all see. Each writes a hidden file
    of its own beside `path`, which names them and is written last.

    Args:
        path: the file; its folder has to exist.
        model: a module, or a mapping from names to modules; an average of parameters is one of them.
        optimizer: an optimizer, or a mapping; so are the other objects.
        scheduler: what sets the learning rate.
        sampler: the position in the data: `Batches`, a sampler of `repdl.random`, or another object with `state_dict`.
        scaler: a `torch.amp.GradScaler`.
        generator: generators that are not the default ones: of torch, `repdl.random`, numpy or Python.
        extra: what else the program needs, such as the step: numbers, text, tensors, arrays, and dicts, lists, tuples
            and sets of these.
        gradients: whether `.grad` of parameters is saved. False is for loops that clear gradients before the next
            backward pass, and saves their memory.
        keep: how many checkpoints of this name stay in the folder, where names differ in their numbers only
            (`step-10`, `step-20`); older ones are removed once this one is there. None removes none.
        progress: show a progress bar.

    Returns:
        The digest of states and contract, which does not depend on machine, time or versions: two runs that are in the
        same state have the same digest.

    Raises:
        CheckpointError: for a state that is not made of data, with its path; if another process saves into the folder;
            if the file can't be written, on any rank. Checkpoints that were there stay as they were.

    Source: https://huggingface.co/docs/safetensors
    """
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "sampler": sampler}
    objects["generator"] = generator
    finish_together()
    return ranks.together(lambda: _job(path, objects, extra, gradients, keep, progress)).write()


def async_save(
    path: Path_,
    *,
    model: Objects = None,
    optimizer: Objects = None,
    scheduler: Objects = None,
    sampler: Objects = None,
    scaler: Objects = None,
    generator: Objects = None,
    extra: Any = None,
    gradients: bool = True,
    keep: int | None = None,
    progress: bool = False,
) -> Saving:
    """`save` while training goes on: the state is copied into memory of the CPU first, and then written by a thread.

    A later `save`, `async_save` or `load` waits for it. With several ranks of torch.distributed each of them calls
    `async_save`, and later `handle.wait()`, without which the checkpoint is not there.

    Args:
        path: the file, and all else as for `save`.

    Returns:
        A handle. `handle.wait()` returns the digest when the file is there, or raises what went wrong.

    Raises:
        CheckpointError: for a state that is not made of data.

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict_saver.async_save
    """
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "sampler": sampler}
    objects["generator"] = generator

    def copied() -> _Job:
        job = _job(path, objects, extra, gradients, keep, progress)
        return replace(job, state=job.state.copied())

    finish_together()
    saving = Saving(ranks.together(copied))
    saving._start()
    return saving


def finish_together() -> None:
    """Wait, with all ranks, for what several ranks write in the background."""
    for saving in [saving for saving in _running if saving._job.ranks > 1]:
        saving.wait()


def finish_alone() -> None:
    """Wait for what this process alone writes in the background; without a word to other ranks."""
    for saving in [saving for saving in _running if saving._job.ranks == 1]:
        saving.wait()


def _finish_at_exit() -> None:
    """Let a program end when its checkpoints are there; an error that nobody waited for is printed."""
    for saving in [*_running]:
        try:
            saving._end()
        except Exception as error:
            print(error, file=sys.stderr)


# Before the pools of threads that write are shut down, which is before the functions of atexit.
threading._register_atexit(_finish_at_exit)  # type: ignore[attr-defined]


def _job(path: Path_, objects: Objects, extra: Any, gradients: bool, keep: int | None, progress: bool) -> _Job:
    run = Run.of(**objects)
    finish_alone()
    file = Path(path).absolute()
    if file.is_dir() or not file.parent.is_dir():
        what = "is a folder" if file.is_dir() else "is in a folder that does not exist"
        raise CheckpointError(f"checkpoint: {file} {what}, expected the name of a file in a folder that is there")
    check_keep(file, keep)
    state = collect(run, gradients)
    if extra is not None:
        state["extra"] = extra
    facts = {
        "contract": str(get_contract()),
        "enabled": is_enabled(),
        "many": run.many(),
        "versions": {"repdl": version("repdl-core"), "torch": torch.__version__, "numpy": np.__version__},
        "time": time.time_ns(),
    }
    return _Job(file, Encoded.of(state), facts, run, keep, progress, ranks.rank(), ranks.size())


__all__ = ["Saving", "async_save", "finish_alone", "finish_together", "follow", "save"]
