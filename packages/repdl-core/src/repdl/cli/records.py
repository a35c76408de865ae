"""`repdl record` and `repdl diff`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack

from repdl.errors import RecordError
from repdl.overrides.program import enabled_with_children, execute
from repdl.records import compare, recorder


def record(args: argparse.Namespace) -> int:
    """Run a program while what it computes is noted."""
    with ExitStack() as stack:
        if args.enable:
            stack.enter_context(enabled_with_children(args.contract, args.on_uncovered))
        try:
            stack.enter_context(recorder.record(args.into, args.level, args.steps, args.only))
        except RecordError as error:
            print(f"repdl {error}", file=sys.stderr)
            return 2
        execute(args.program, args.arguments, args.is_module)
    return 0


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str], most: int, as_json: bool = False) -> int:
    """Where two records part: 0 if they are equal, 1 if they differ, 2 if they can't be compared to their ends."""
    try:
        found = compare.diff(a, b)
    except RecordError as error:
        print(f"repdl diff: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found.as_json(most), indent=2) if as_json else "\n".join(compare.report(found, most)))
    return found.status


__all__ = ["diff", "record"]
