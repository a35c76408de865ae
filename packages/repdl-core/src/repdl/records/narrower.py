"""Which record to make next, of a difference that is known roughly."""

from __future__ import annotations

import re
import shlex

from repdl.records.entries import LEVELS, Entry
from repdl.records.file import Record


def narrower(record: Record, entry: Entry | None) -> str | None:
    """The command of a record that shows more of an entry, None if this one has it all, or is not of a program."""
    facts = record.environment
    program, level = facts.get("program"), facts.get("level")
    if entry is None or not program or level not in LEVELS or facts.get("values"):
        return None
    name = re.sub(r"\.rank\d+$", "", record.path.stem)
    command = ["repdl", "record", "-o", f"{name}.op{record.path.suffix}"]
    command += ["--enable"] if facts.get("enabled") else []
    command += ["--steps", f"{entry.step}:{entry.step + 1}"]
    # A module's own inputs may differ by what its parameters were before: their ops are in no module.
    if entry.module and level != "step" and entry.kind in ("op", "module"):
        command += ["--only", f"{entry.module}*"]
    command += ["--values"] if level == "op" else []
    return shlex.join([*command, *program])


__all__ = ["narrower"]
