"""`load`: the state of a file into the objects of a run, all of it or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repdl.checkpoint import checks, ranks
from repdl.checkpoint.compare import Tree
from repdl.checkpoint.format import Header
from repdl.checkpoint.progress import progress_bar
from repdl.checkpoint.saving import Objects, finish_alone, finish_together, follow
from repdl.checkpoint.state import OF_MODELS, Backup, Run, State, first_wrong, steps
from repdl.checkpoint.structure import decode
from repdl.errors import CheckpointError


@dataclass(frozen=True)
class Checkpoint:
    """What `load` has loaded.

    Args:
        path: the file.
        digest: of states and contract, as `save` returned it.
        previous: the digest of the checkpoint that the run had gone on from; None for the first.
        contract: the contract that the run follows.
        versions: of repdl, torch and numpy, by which it was saved.
        extra: what was passed to `save`.
        missing: objects that were passed and that it has no state of, with `strict=False`.
        surplus: states that nothing was passed for, with `strict=False`.
    """

    path: Path
    digest: str
    previous: str | None
    contract: str
    versions: Mapping[str, str]
    extra: Any
    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()


def load(
    path: str | os.PathLike[str],
    *,
    model: Objects = None,
    optimizer: Objects = None,
    scheduler: Objects = None,
    sampler: Objects = None,
    scaler: Objects = None,
    generator: Objects = None,
    strict: bool = True,
    generators: bool = True,
    digest: str | None = None,
    progress: bool = False,
) -> Checkpoint:
    """Put the state that `save` wrote into the objects of a run, and the default generators where they were.

    All is checked before anything changes: the digest of every tensor, that of the whole, and whether the states fit.
    When all is in its place, states are read again and compared with the file, so that an optimizer that converts or
    forgets a part of its state is noticed. After an error everything is as it was before the call. Loading runs no code
    of the file.

    Args:
        path: the file.
        model: a module, or a mapping from names to modules, as it was saved; so are the other objects.
        optimizer: an optimizer, or a mapping.
        scheduler: what sets the learning rate.
        sampler: the position in the data; the next iteration goes on there.
        scaler: a `torch.amp.GradScaler`.
        generator: generators that are not the default ones.
        strict: whether an object without a state, or a state without an object, a parameter that one of them lacks,
            another contract, or `repdl.enable()` in one and not the other is an error. False loads what both have.
        generators: whether the default generators go on where they were.
        digest: what `save` returned, if it is known: another checkpoint is refused.
        progress: show a progress bar.

    Returns:
        What is known of the checkpoint, with `extra`.

    Raises:
        CheckpointError: if the file is damaged or another one, or does not hold the states of these objects; with
            torch.distributed, if it is so on any rank, or if another number of ranks has saved it.
    """
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "sampler": sampler}
    objects["generator"] = generator
    finish_together()
    found = ranks.together(lambda: _Found.of(Path(path), objects, strict, generators, digest, progress))
    found.exchange()
    follow(found.run, found.whole.digest)
    facts = found.header.facts
    return Checkpoint(
        Path(path),
        found.whole.digest,
        found.whole.previous,
        facts["contract"],
        facts["versions"],
        found.state.get("extra"),
        tuple(found.missing),
        tuple(found.surplus),
    )


@dataclass(frozen=True)
class _Found:
    """A file that was read and checked, and the objects that its states fit."""

    path: Path
    run: Run
    strict: bool
    whole: Header
    header: Header
    state: State
    missing: list[str]
    surplus: list[str]

    @classmethod
    def of(
        cls, path: Path, objects: Objects, strict: bool, generators: bool, digest: str | None, progress: bool
    ) -> _Found:
        """Read and check all, and change nothing."""
        finish_alone()
        run = Run.of(**objects)
        size = path.stat().st_size if path.is_file() else 0
        with progress_bar(f"load {path.name}", size, progress) as advance:
            whole, header, tensors = ranks.read_own(path, advance)
        if digest is not None and whole.digest != digest:
            raise CheckpointError(
                f"checkpoint: {path} has the digest {whole.digest}, expected {digest}: it is another one"
            )
        state: State = decode(header.tree, tensors, run.meshes())
        if not generators:
            del state["generators"]
        checks.check_kinds(path, run, header)
        missing, surplus = checks.missing_and_surplus(run, state)
        if strict:
            checks.check_settings(path, header.facts)
            checks.check_complete(path, missing, surplus)
        checks.check_objects(path, run, state, strict)
        return cls(path, run, strict, whole, header, state, missing, surplus)

    def exchange(self) -> None:
        """Put the state into the objects, and compare; after an error, on any rank, they get theirs back."""
        before = ranks.together(lambda: Backup.of(self.run))
        try:
            ranks.together(self._put)
        except BaseException as error:
            failed = before.restore()
            if failed:
                raise CheckpointError(
                    f"checkpoint: the states of {self.path} do not fit ({type(error).__name__}: {error}), and "
                    f"{failed[0]} did not take its own state back; make the objects anew"
                ) from error
            if isinstance(error, CheckpointError) or not isinstance(error, Exception):
                raise
            raise CheckpointError(
                f"checkpoint: the states of {self.path} do not fit ({type(error).__name__}: {error}); everything is as "
                f"it was"
            ) from error

    def _put(self) -> None:
        for _, step in steps(self.run, self.state, self.strict):
            step()
        wrong = first_wrong(self.run, _wanted(self.run, self.state, self.header), self.strict)
        if wrong is not None:
            raise CheckpointError(
                f"checkpoint: {self.path} has {wrong.a or 'nothing'} at {wrong.path}, and after loading there is "
                f"{wrong.b or 'nothing'}; expected the same: its load_state_dict converts or forgets a part"
            )


def _wanted(run: Run, state: State, header: Header) -> Tree:
    """The part of a file's states that the objects have to be in."""
    kinds = {*run.objects, *(OF_MODELS if "model" in run.objects else ()), "generators"} & state.keys()
    tree = Tree.of(header)
    return Tree({"dict": [[key, kept] for key, kept in tree.json["dict"] if key in kinds]}, tree.tensors)


__all__ = ["Checkpoint", "load"]
