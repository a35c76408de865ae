"""Where two records part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from repdl.records.calls import comes_later
from repdl.records.entries import LEVELS, Entry, Tensor
from repdl.records.file import Record, read
from repdl.records.narrower import narrower
from repdl.records.values import Values
from repdl.tensors.apart import apart

AHEAD = 400
"""Entries of one record within which the other's next ones are looked for."""
SURE = 4
"""Entries in a row that agree, by which records are in step again."""


@dataclass(frozen=True)
class Finding:
    """A difference that no earlier one explains."""

    kind: str
    """`op`, `module`: inputs agree and outputs differ; `input`: one differs that no op made; `arguments`; `generator`:
    its state before a draw; `data`: a batch; `step`: the parameters after it; `extra`: entries that one record has and
    the other lacks; `program`: from here on they are records of other programs."""
    text: str
    a: Entry | None = None
    b: Entry | None = None
    count: int = 1
    """Of `extra`: how many entries."""

    @property
    def step(self) -> int:
        """Of the first entry."""
        entry = self.a or self.b
        return 0 if entry is None else entry.step

    def as_json(self) -> dict[str, Any]:
        """For `repdl diff --json`."""
        sides = {side: entry.as_json() for side, entry in (("a", self.a), ("b", self.b)) if entry is not None}
        return {"kind": self.kind, "text": self.text, "count": self.count} | sides


@dataclass
class Comparison:
    """What `diff` found."""

    a: Record
    b: Record
    environment: dict[str, tuple[Any, Any]]
    """What differs of it: the values of a and of b."""
    findings: list[Finding] = field(default_factory=list)
    """In the order of execution; the first one is where the runs part."""
    compared: int = 0
    """Entries that both have."""
    consequences: int = 0
    """Entries that differ because an input of theirs does."""
    states: dict[int, str] = field(default_factory=dict)
    """The entries of a that differ, by number: `first`: no earlier one explains it; `follows`."""

    @property
    def status(self) -> int:
        """0: equal; 1: different; 2: they can't be compared to their ends."""
        if self.findings:
            return 1
        return 0 if self.a.ended and self.b.ended and self.compared else 2

    def as_json(self, most: int) -> dict[str, Any]:
        """For `repdl diff --json`."""
        records = {
            side: {
                "path": str(record.path),
                "entries": len(record.entries),
                "ended": record.ended,
                "error": record.error,
            }
            for side, record in (("a", self.a), ("b", self.b))
        }
        return records | {
            "equal": self.status == 0,
            "compared": self.compared,
            "consequences": self.consequences,
            "environment": {key: list(values) for key, values in self.environment.items()},
            "findings": [finding.as_json() for finding in self.findings[:most]],
            "next": narrower(self.a, self.findings[0].a or self.findings[0].b) if self.findings else None,
            "more": max(0, len(self.findings) - most),
        }


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Comparison:
    """Compare two files of `record`; of different levels, by what both have.

    Args:
        a, b: the files.

    Returns:
        the differences of environments, and those of entries that no earlier one explains: an op whose inputs agree and
        whose outputs do not, an input that no op made, other arguments, another state of a generator, another batch,
        entries that one of them lacks.

    Raises:
        RecordError: if one is no record, or is damaged.
    """
    first, second = read(a), read(b)
    level = min(first.level, second.level, key=LEVELS.index)
    first, second = first.at(level), second.at(level)
    found = Comparison(first, second, _environments(first.environment, second.environment))
    _Walk(found).walk()
    return found


def _environments(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    keys = [*a, *(key for key in b if key not in a)]
    return {key: (a.get(key), b.get(key)) for key in keys if a.get(key) != b.get(key) and key != "command"}


def _kind(entry: Entry) -> tuple[Any, ...]:
    """By what an entry is known in another record."""
    shapes = tuple((t.dtype, t.shape) for t in (*entry.inputs, *entry.outputs))
    return entry.kind, entry.name, entry.phase, entry.module, shapes


class _Walk:
    def __init__(self, found: Comparison) -> None:
        self._found = found
        self._kinds = [list(map(_kind, record.entries)) for record in (found.a, found.b)]
        self._drawn_apart = False
        self._parted: set[tuple[int, str]] = set()  # step and module of entries that differ
        self._values = Values(found.a.path), Values(found.b.path)
        # Of a and of b: what each entry has as outputs, by number.
        self._outputs: tuple[dict[int, Entry], dict[int, Entry]] = ({}, {})

    def walk(self) -> None:
        """Find the differences."""
        a, b = self._found.a.entries, self._found.b.entries
        i = j = 0
        while i < len(a) and j < len(b):
            if self._kinds[0][i] == self._kinds[1][j]:
                self._compare(a[i], b[j])
                i, j = i + 1, j + 1
                continue
            more = self._resume(i, j)
            if more is None:
                text = f"a goes on with {_title(a[i])}, b with {_title(b[j])}: records of other programs from here on"
                self._found.findings.append(Finding("program", text, a[i], b[j]))
                return
            self._extra("a", a[i : i + more[0]])
            self._extra("b", b[j : j + more[1]])
            i, j = i + more[0], j + more[1]
        if self._found.a.ended and self._found.b.ended:
            self._extra("a", a[i:])
            self._extra("b", b[j:])

    def _resume(self, i: int, j: int) -> tuple[int, int] | None:
        """How many entries of a and of b are passed over until they go on alike; the fewest."""
        a, b = self._kinds
        for total in range(1, AHEAD):
            for more in range(total + 1):
                x, y = i + more, j + total - more
                sure = min(SURE, len(a) - x, len(b) - y)
                if (sure > 0 and a[x : x + sure] == b[y : y + sure]) or (x == len(a) and y == len(b)):
                    return more, total - more
        return None

    def _extra(self, side: str, entries: list[Entry]) -> None:
        if not entries:
            return
        for entry in entries:
            self._outputs[side == "b"][entry.number] = entry
            self._parted.add((entry.step, entry.module))
            if side == "a":
                self._found.states[entry.number] = "first"
        self._drawn_apart |= any(entry.generator for entry in entries)
        names = ", ".join(dict.fromkeys(e.name for e in entries))
        many = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
        text = f"{side} has {many} that {'b' if side == 'a' else 'a'} lacks: {names}; {entries[0].place}"
        a, b = (entries[0], None) if side == "a" else (None, entries[0])
        self._found.findings.append(Finding("extra", text, a, b, len(entries)))

    def _compare(self, a: Entry, b: Entry) -> None:
        self._found.compared += 1
        for known, entry in zip(self._outputs, (a, b)):
            known[entry.number] = entry
        before = self._found.consequences
        found = self._difference(a, b)
        if found is not None:
            self._found.findings.append(Finding(*found, a, b))
        if found is not None or self._found.consequences > before:
            self._found.states[a.number] = "follows" if found is None else "first"
            self._parted.add((a.step, a.module))

    def _difference(self, a: Entry, b: Entry) -> tuple[str, str] | None:
        outputs = _differ(a.outputs, b.outputs)
        if a.kind in ("data", "step"):
            what = "the batch that it loads differs" if a.kind == "data" else "parameters differ after it"
            if a.kind == "step" and self._found.findings:
                self._found.consequences += bool(outputs)
                return None
            return (a.kind, f"{_title(a)}: {what}: {self._shown(a.outputs, b.outputs, outputs)}") if outputs else None
        inputs = _differ(a.inputs, b.inputs)
        if a.arguments != b.arguments:
            return "arguments", f"{_title(a)}: arguments are ({a.arguments}) in a, ({b.arguments}) in b"
        if a.generator != b.generator and not self._drawn_apart:
            self._drawn_apart = True
            return "generator", f"{_title(a)}: torch's generator is in another state before it draws"
        outside = next((i for i in inputs if self._is_from_outside(a.inputs[i], b.inputs[i])), None)
        if outside is not None:
            what = self._shown(a.inputs, b.inputs, [outside])
            return "input", f"{_title(a)}: an input differs: {what}, and {self._since(a, b, outside)}"
        explained = a.kind == "module" and self._has_parted(a)
        if outputs and not inputs and a.generator == b.generator and not explained:
            same = "inputs agree" + "".join(_strides(a.inputs, b.inputs))
            return a.kind, f"{_title(a)}: {same}, and outputs differ: {self._shown(a.outputs, b.outputs, outputs)}"
        self._found.consequences += bool(outputs or inputs)
        return None

    def _shown(self, a: tuple[Tensor, ...], b: tuple[Tensor, ...], numbers: list[int]) -> str:
        """The tensors that differ; of the first ones whose values both have, how far."""
        more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
        return ", ".join(f"{i}, {a[i]}{self._apart(a[i], b[i])}" for i in numbers[:4]) + more

    def _apart(self, a: Tensor, b: Tensor) -> str:
        first, second = (values.tensor(noted) for values, noted in zip(self._values, (a, b)))
        found = None if first is None or second is None else apart(first, second)
        return "" if found is None else f" ({found.text()})"

    def _has_parted(self, module: Entry) -> bool:
        """Whether something in a module, or in one below it, has differed in this step."""
        inside = f"{module.module}." if module.module else ""
        return any(step == module.step and f"{name}.".startswith(inside) for step, name in self._parted)

    def _is_from_outside(self, a: Tensor, b: Tensor) -> bool:
        """Whether an input that differs has no maker, or not what its maker made."""
        if (a.maker is None and b.maker is None) or self._collective(a, b) is not None:
            return not self._found.findings
        return any(
            tensor.maker is not None
            and tensor.maker[0] in known
            and known[tensor.maker[0]].outputs[tensor.maker[1]].differs(tensor)
            for known, tensor in zip(self._outputs, (a, b))
        )

    def _collective(self, a: Tensor, b: Tensor) -> Entry | None:
        """The collective that made a tensor, which had not come when its entry was written."""
        for tensor, known in zip((a, b), self._outputs):
            maker = None if tensor.maker is None else known.get(tensor.maker[0])
            if maker is not None and comes_later(maker.name):
                return maker
        return None

    def _since(self, a: Entry, b: Entry, i: int) -> str:
        came = self._collective(a.inputs[i], b.inputs[i])
        if came is not None:
            return f"it came by {_title(came)}, from the other ranks"
        for entry, known in ((a, self._outputs[0]), (b, self._outputs[1])):
            maker = entry.inputs[i].maker
            if maker is not None and maker[0] in known:
                return f"something outside torch's dispatcher wrote it after {_title(known[maker[0]])}"
        return "no recorded op made it"


def _differ(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> list[int]:
    return [i for i, (x, y) in enumerate(zip(a, b)) if x.differs(y)]


def _strides(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Iterator[str]:
    """Where inputs of the same elements lie otherwise in memory."""
    for i, (x, y) in enumerate(zip(a, b)):
        if x.strides != y.strides:
            lies = (f"of strides {list(t.strides)}" if t.strides else "contiguous" for t in (x, y))
            yield f" (but input {i} is {' in a, '.join(lies)} in b)"


def _title(entry: Entry) -> str:
    return f"{entry.name} (entry {entry.number}, {entry.place})"


def report(found: Comparison, most: int = 10) -> Iterator[str]:
    """Lines for people."""
    for key, (a, b) in found.environment.items():
        yield f"environment: {key} is {a!r} in a, {b!r} in b"
    for side, record in (("a", found.a), ("b", found.b)):
        if not record.ended:
            yield f"{side} is incomplete: the run was cut off after {len(record.entries)} entries"
        elif record.error:
            yield f"{side} ended with {record.error}"
    if not found.findings:
        yield f"{found.compared} entries compared, none differs"
        return
    first, *others = found.findings
    yield f"first difference: {first.text}"
    for other in others[: most - 1]:
        yield f"then: {other.text}"
    if len(others) >= most:
        yield f"and {len(others) - most + 1} more"
    yield f"{found.compared} entries compared; {found.consequences} differ because an input of theirs does"
    more = narrower(found.a, first.a or first.b)
    if more:
        yield f"to see more, in each of the two settings: {more}"


__all__ = ["Comparison", "Finding", "diff", "report"]
