"""`repdl record`, `repdl diff` and `repdl try`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from repdl.errors import RecordError
from repdl.overrides.program import enabled_with_children, execute
from repdl.records import compare, recorder
from repdl.records.trial import Setting, report, try_program


def record(args: argparse.Namespace) -> int:
    """Run a program while what it computes is noted."""
    if not args.enable and (args.contract is not None or args.on_uncovered != "raise"):
        print(
            "repdl record: --contract and --on-uncovered are for runs with --enable, expected it beside them",
            file=sys.stderr,
        )
        return 2
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


def diff(args: argparse.Namespace) -> int:
    """Where two records part: 0 if they are equal, 1 if they differ, 2 if they can't be compared to their ends."""
    try:
        found = compare.diff(args.a, args.b)
    except RecordError as error:
        print(f"repdl diff: {error}", file=sys.stderr)
        return 2
    shown = json.dumps(found.as_json(args.most), indent=2) if args.json else "\n".join(compare.report(found, args.most))
    print(shown)
    return found.status


def trial(args: argparse.Namespace) -> int:
    """A program in several settings: 0 if RepDL gives one result, 1 if not, 2 if the program fails by itself."""
    from tqdm import tqdm

    def progress(settings: Sequence[Setting]) -> Iterable[Setting]:
        return tqdm(settings, "runs", unit="run", leave=False, disable=None)

    found = try_program(args.program, args.arguments, args.is_module, args.keep, progress)
    print(json.dumps(found.as_json(), indent=2) if args.json else "\n".join(report(found)))
    return found.status


__all__ = ["diff", "record", "trial"]
