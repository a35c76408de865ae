"""What a run computes, op by op, in a file; and where two runs part.

`record` writes the file while a program runs, with torch alone or under `repdl.enable()`; `diff` compares two of them
by equality of bits; `rerun` computes one op of it again.
"""

from __future__ import annotations

from repdl.records.compare import Comparison, Finding, diff
from repdl.records.recorder import record
from repdl.records.rerun import Result, rerun

__all__ = ["Comparison", "Finding", "Result", "diff", "record", "rerun"]
