"""The findings of an audit, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repdl.audit.location import SourceLocation
from repdl.audit.reproducibility import Reproducibility
from repdl.utils import table


@dataclass(frozen=True)
class Finding:
    """Calls of one op at one line.

    Attributes:
        op: the overload, such as `aten.mm.default`.
        reproducibility: what is known of its bits.
        reason: why.
        location: the line of the source. Of an op of a backward pass it is that of the backward, where that is Python's
            (`torch.autograd.Function`), else of the forward op whose derivative it is.
        derivative: the node of autograd that called it, such as `MulBackward0`; "" in the forward pass.
        remedy: the function of RepDL to call instead, or None.
        count: how many calls.
    """

    op: str
    reproducibility: Reproducibility
    reason: str
    location: SourceLocation
    derivative: str = ""
    remedy: str | None = None
    count: int = 0

    @property
    def module(self) -> str:
        """The path of the innermost module that was called."""
        return self.location.module

    @property
    def line(self) -> str:
        """`file:line`."""
        return str(self.location)

    @property
    def ok(self) -> bool:
        """Whether the bits are the same on every machine."""
        return self.reproducibility.ok

    def counted(self, count: int) -> Finding:
        """The same, of so many calls."""
        return replace(self, count=count)

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        behind = f", in the derivative {self.derivative}" if self.derivative else ""
        advice = f"; use {self.remedy}" if self.remedy else ""
        return f"{self.op}{times}{self.location.in_message}{behind}: {self.reason}{advice}"


@dataclass(frozen=True)
class Report:
    """The ops that a call reached. Printed, it is a table, what is not reproducible first."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether all of them have the same bits on every machine."""
        return all(finding.ok for finding in self.findings)

    @property
    def refused(self) -> tuple[Finding, ...]:
        """The findings that are not reproducible."""
        return tuple(finding for finding in self.findings if not finding.ok)

    def __str__(self) -> str:
        ordered = sorted(self.findings, key=lambda finding: (finding.ok, bool(finding.derivative)))
        count, calls = len(self.refused), sum(finding.count for finding in self.findings)
        end = f"{calls} calls, {'all reproducible' if self.ok else f'{count} findings not reproducible'}"
        return f"{table([_TITLES, *map(_cells, ordered)])}\n{end}"


_TITLES = ("reproducibility", "op", "calls", "pass", "module", "line", "source", "reason")


def _cells(finding: Finding) -> Sequence[str]:
    reason = f"{finding.reason}; use {finding.remedy}" if finding.remedy else "" if finding.ok else finding.reason
    part = finding.derivative or "forward"
    return (
        finding.reproducibility.value,
        finding.op,
        str(finding.count),
        part,
        finding.module,
        finding.line,
        finding.location.source[:60],
        reason,
    )


__all__ = ["Finding", "Report"]
