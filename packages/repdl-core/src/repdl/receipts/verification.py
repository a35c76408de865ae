"""Executing the program of a receipt again, and comparing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

from repdl.errors import ReceiptError
from repdl.receipts.signing import check_signed
from repdl.receipts.statement import LEVEL, Receipt, Step, read
from repdl.receipts.watching import Watcher, code


@dataclass(frozen=True)
class Verdict:
    """What came of an execution."""

    receipt: Receipt
    steps: int
    """How many were compared and agree."""
    first: int
    """How many steps before them were not executed."""
    difference: str | None
    """Where the first one that does not is, None if all do."""
    code: tuple[str, ...] = ()
    """Files that are others than those of the receipt."""
    keys: tuple[str, ...] = ()
    """The files of the keys whose signatures were checked."""

    @property
    def status(self) -> int:
        """0: all steps agree; 1: one differs, or a file does."""
        return int(self.difference is not None or bool(self.code))

    def lines(self) -> list[str]:
        """For people."""
        count = self.receipt.signatures
        unchecked = f"{count} signature{'s' * (count > 1)} that no --key was given for" if count else "unsigned"
        signed = f"signed by {', '.join(self.keys)}" if self.keys else unchecked
        found = [f"receipt: {' '.join(self.receipt.program)}, {len(self.receipt.steps)} steps, {LEVEL}, {signed}"]
        found += [f"another file: {name}" for name in self.code]
        span = f", {self.first} to {self.first + self.steps - 1}" if self.first and self.steps > 1 else ""
        found += [f"{self.steps} step{'s' * (self.steps != 1)} agree{'s' * (self.steps == 1)}{span}"]
        return found + ([f"first difference: {self.difference}"] if self.difference else [])


class _Stopped(BaseException):
    """Ends a program that is executed again. No Exception, which programs catch."""


def verify(
    path: str | os.PathLike[str],
    execute: Callable[[Receipt], None],
    steps: int | None = None,
    keys: Sequence[str | os.PathLike[str]] = (),
    first: int = 0,
) -> Verdict:
    """Execute the program of a receipt again, and compare it step by step.

    Args:
        path: the receipt.
        execute: runs the program of a receipt in this process, with torch's ops reproducible under its contract.
        steps: how many steps are executed; default: all.
        keys: PEM files of public keys, each of which must have signed the receipt.
        first: how many steps the program does not make again, as it goes on from a checkpoint. The state that it has
            then must be the receipt's.

    Returns:
        what agrees, and the first difference. The program is stopped there.

    Raises:
        ReceiptError: if the file is no receipt, or was edited, or one of the keys has not signed it, or it has no
            state after `first` steps.
    """
    known = read(path)
    if keys:
        check_signed(path, keys)
    before = _state_after(known, first)
    left = len(known.steps) - first
    wanted = left if steps is None else min(steps, left)
    agreed, differences = 0, []

    def begin(state: str) -> None:
        if state != before:
            differences.append(f"the checkpoint: parameters or the optimizer's state before step {first}")
            raise _Stopped

    def compare(step: Step) -> None:
        nonlocal agreed
        expected = known.steps[step.step] if step.step < len(known.steps) else None
        if expected is not None and step.step == first > 0:  # to go on may load batches again, up to these
            step = replace(step, data=step.data[len(step.data) - len(expected.data) :])
        said = _difference(expected, step)
        if said is not None:
            differences.append(said)
            raise _Stopped
        agreed += 1
        if agreed == wanted < left:
            raise _Stopped

    watcher = Watcher(known.every, compare, first, begin if first else None)
    with ExitStack() as stack:
        watcher.hook(stack)
        try:
            execute(known)
        except _Stopped:
            pass
        except SystemExit as error:
            if error.code not in (None, 0) and not differences:  # else by a handler that has met `_Stopped`
                raise ReceiptError(f"verify: the program ended with {error.code} after {agreed} steps") from error
    if not differences and agreed < wanted:
        made = f"{agreed} steps{f' from step {first} on' if first else ''}"
        differences.append(f"the program ended after {made}, the receipt has {wanted}")
    if not differences and wanted == left and watcher.state() != known.final:
        differences.append("the parameters at the end, after the last step")
    now = code()
    others = tuple(name for name, digest in known.code.items() if now.get(name) != digest)
    signed = tuple(str(os.fspath(key)) for key in keys)
    return Verdict(known, agreed, first, differences[0] if differences else None, others, signed)


def _state_after(known: Receipt, steps: int) -> str | None:
    """The digest after so many steps; None after none."""
    if steps == 0:
        return None
    if any(step.which for step in known.steps):
        raise ReceiptError("verify: the run has several optimizers, expected one; execute all steps")
    state = known.steps[steps - 1].state if 0 < steps < len(known.steps) else None
    if state is None:
        raise ReceiptError(
            f"verify: the receipt has no state after {steps} steps, expected a multiple of {known.every} below "
            f"{len(known.steps)}"
        )
    return state


def _difference(expected: Step | None, found: Step) -> str | None:
    """What of a step differs, in the order in which it is a cause."""
    if expected is None:
        return f"step {found.step}: the receipt has no such step"
    mine, theirs = asdict(expected), asdict(found)
    names = {
        "data": "the batches that were loaded before it", "optimizer": "the optimizer",
        "settings": "a hyperparameter of the optimizer", "state": "parameters or the optimizer's state after it",
    }  # fmt: skip
    mine["optimizer"], theirs["optimizer"] = ((step["optimizer"], step["which"]) for step in (mine, theirs))
    wrong = [text for name, text in names.items() if mine[name] != theirs[name]]
    return f"step {found.step}: {' and '.join(wrong)}" if wrong else None


__all__ = ["Verdict", "verify"]
