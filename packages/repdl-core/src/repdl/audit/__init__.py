"""What a program computes by torch's own ops, and which of them have the same bits on every machine.

`kinds` is the table of torch's ops, `judge` what it means for a call, `watch` the mode that sees the calls, `place`
where they are in a program, `run` the public `repdl.audit`.
"""

from __future__ import annotations

from repdl.audit.judge import Judgement, Verdict, judge
from repdl.audit.kinds import KINDS, Kind, kind_of
from repdl.audit.report import Report, Row
from repdl.audit.run import audit
from repdl.audit.watch import Watch, watching

__all__ = ["KINDS", "Judgement", "Kind", "Report", "Row", "Verdict", "Watch", "audit", "judge", "kind_of", "watching"]
