"""What a program computes by torch's own ops, and which of them have the same bits on every machine.

`op_classes` is the table of torch's ops, `reproducibility` classifies a call, `watch` has the mode that sees calls,
`location` finds their line in the program, `run` has the public `repdl.audit`.
"""

from __future__ import annotations

from repdl.audit.op_classes import OP_CLASSES, OpClass, class_of
from repdl.audit.report import Finding, Report
from repdl.audit.reproducibility import Classification, Reproducibility, classify
from repdl.audit.run import audit
from repdl.audit.watch import Watch, watching

__all__ = [
    "OP_CLASSES",
    "Classification",
    "Finding",
    "OpClass",
    "Report",
    "Reproducibility",
    "Watch",
    "audit",
    "class_of",
    "classify",
    "watching",
]
