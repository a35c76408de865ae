"""An op of a record, computed again from the inputs that it had: by torch, and by RepDL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from repdl.errors import RecordError, RepDLError
from repdl.overrides.switch import enabled
from repdl.records.calls import outputs_of, read_arguments
from repdl.records.entries import Entry
from repdl.records.file import read
from repdl.records.hashing import fast_digest
from repdl.records.values import Values, laid_out
from repdl.tensors.apart import apart
from repdl.utils import table


@dataclass(frozen=True)
class Result:
    """What one way of computing gives."""

    by: str
    digests: tuple[str, ...] = ()
    """Of the outputs."""
    notes: tuple[str, ...] = ()
    """Of each output, how far it is from that of the record."""
    error: str = ""
    """Why there are no outputs."""


def rerun(path: str | os.PathLike[str], number: int) -> tuple[Entry, list[Result]]:
    """Compute an op of a record again, on this machine.

    Args:
        path: a file of `record(..., values=True)`.
        number: of the entry, as `repdl diff` names it.

    Returns:
        the entry, and what the record has, what torch gives and what RepDL gives.

    Raises:
        RecordError: if there is no such op, its values were not kept, or its arguments can't be read.
    """
    entries, values = read(path).entries, Values(path)
    entry = next((entry for entry in entries if entry.number == number), None)
    if entry is None or entry.kind != "op":
        what = "there is none" if entry is None else f"it is a {entry.kind}"
        raise RecordError(f"rerun: entry {number} of {path}, expected an op, but {what}")
    recorded = [values.tensor(noted) for noted in entry.outputs]
    inputs = [values.tensor(noted) for noted in entry.inputs]
    if any(tensor is None for tensor in (*recorded, *inputs)):
        raise RecordError(f"rerun: the values of entry {number} were not kept, expected a record made with --values")
    state = values.raw(entry.generator) if entry.generator else None
    op = _op(entry.name)

    def compute() -> list[torch.Tensor]:
        copies = [laid_out(tensor, tensor.stride()) for tensor in inputs if tensor is not None]
        args, kwargs = read_arguments(entry.arguments, copies)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            if state is not None:
                torch.set_rng_state(torch.from_numpy(state.copy()))
            return outputs_of(op, args, kwargs, op(*args, **kwargs))

    results = [Result("the record", tuple(str(noted.digest) for noted in entry.outputs))]
    ways: list[tuple[str, Callable[[], list[torch.Tensor]]]] = [
        ("torch", compute),
        ("RepDL", lambda: _enabled(compute)),
    ]
    if not entry.name.startswith("aten."):
        ways = ways[1:]  # torch has no kernel of it
    return entry, [*results, *(_result(by, way, recorded) for by, way in ways)]


def _result(by: str, compute: Callable[[], list[torch.Tensor]], recorded: list[Any]) -> Result:
    try:
        outputs = compute()
    except (RepDLError, RuntimeError, NotImplementedError) as error:
        return Result(by, error=str(error).strip().splitlines()[0])
    far = (apart(a, b) for a, b in zip(recorded, outputs))
    notes = tuple("as in the record" if each is None else each.text("in the record", "here") for each in far)
    return Result(by, tuple(f"{fast_digest(tensor):016x}" for tensor in outputs), notes)


def _enabled(compute: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
    with enabled():
        return compute()


def _op(name: str) -> Any:
    """An op by its name with the overload."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise RecordError(f"rerun: this process has no op {name}, expected the library that defines it")
    return found


def report(entry: Entry, results: list[Result]) -> Iterator[str]:
    """Lines for people."""
    yield f"{entry.name} (entry {entry.number}, {entry.place})"
    yield f"({entry.arguments or ', '.join('_' * len(entry.inputs))}) of {', '.join(map(str, entry.inputs))}"
    for i, noted in enumerate(entry.outputs):
        rows = [(r.by, r.digests[i], *(r.notes or ("",) * (i + 1))[i : i + 1]) for r in results if len(r.digests) > i]
        yield f"output {i}, {noted}"
        yield table(rows)
    for result in results:
        if result.error:
            yield f"{result.by}: {result.error}"


__all__ = ["Result", "report", "rerun"]
