"""What an audit found: rows, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repdl.audit.judge import Verdict
from repdl.audit.place import Place
from repdl.utils import table


@dataclass(frozen=True)
class Row:
    """Calls of one op at one place.

    Attributes:
        op: the overload, such as `aten.mm.default`.
        verdict: what is known of its bits.
        reason: why.
        place: the line of the source. Of an op of a backward pass it is that of the backward, where that is Python's
            (`torch.autograd.Function`), else of the forward op whose derivative it is.
        derivative: the node of autograd that called it, such as `MulBackward0`; "" in the forward pass.
        remedy: the function of RepDL to call instead, or None.
        count: how many calls.
    """

    op: str
    verdict: Verdict
    reason: str
    place: Place
    derivative: str = ""
    remedy: str | None = None
    count: int = 0

    @property
    def module(self) -> str:
        """The path of the innermost module that was called."""
        return self.place.module

    @property
    def line(self) -> str:
        """`file:line`."""
        return str(self.place)

    @property
    def ok(self) -> bool:
        """Whether the bits are the same on every machine."""
        return self.verdict.ok

    def counted(self, count: int) -> Row:
        """The same, of so many calls."""
        return replace(self, count=count)

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        behind = f", in the derivative {self.derivative}" if self.derivative else ""
        advice = f"; use {self.remedy}" if self.remedy else ""
        return f"{self.op}{times}{self.place.told}{behind}: {self.reason}{advice}"


@dataclass(frozen=True)
class Report:
    """The ops that a call reached. Printed, it is a table, what is not reproducible first."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether all of them have the same bits on every machine."""
        return all(row.ok for row in self.rows)

    @property
    def refused(self) -> tuple[Row, ...]:
        """The rows that have not."""
        return tuple(row for row in self.rows if not row.ok)

    def __str__(self) -> str:
        ordered = sorted(self.rows, key=lambda row: (row.ok, bool(row.derivative)))
        count, calls = len(self.refused), sum(row.count for row in self.rows)
        end = f"{calls} calls, {'all reproducible' if self.ok else f'{count} rows not reproducible'}"
        return f"{table([_TITLES, *map(_cells, ordered)])}\n{end}"


_TITLES = ("verdict", "op", "calls", "pass", "module", "line", "source", "reason")


def _cells(row: Row) -> Sequence[str]:
    reason = f"{row.reason}; use {row.remedy}" if row.remedy else "" if row.ok else row.reason
    part = row.derivative or "forward"
    return (row.verdict.value, row.op, str(row.count), part, row.module, row.line, row.place.source[:60], reason)


__all__ = ["Report", "Row"]
