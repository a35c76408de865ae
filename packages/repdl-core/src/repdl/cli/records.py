"""`repdl record`, `repdl diff`, `repdl rerun` and `repdl try`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from repdl.checkpoint.folder import is_checkpoint
from repdl.cli.arguments import END
from repdl.cli.checkpoints import compare as compare_checkpoints, compare_containers
from repdl.errors import RecordError
from repdl.overrides.program import enabled_with_children, execute
from repdl.records import compare, recorder, rerun
from repdl.records.file import is_record
from repdl.records.page import page
from repdl.records.ranks import of_ranks
from repdl.records.rerun import report as shown_results
from repdl.records.trial import Setting, report, try_program


def record(args: argparse.Namespace) -> int:
    """Run a program while what it computes is noted."""
    if not args.enable and (args.contract is not None or args.on_uncovered != "raise"):
        print(
            "repdl record: --contract and --on-uncovered are for runs with --enable, expected it beside them",
            file=sys.stderr,
        )
        return 2
    if args.steps and args.every:
        steps = range(args.steps.start, args.steps.stop, args.every)
    else:
        steps = range(0, END, args.every) if args.every else args.steps
    with ExitStack() as stack:
        if args.enable:
            stack.enter_context(enabled_with_children(args.contract, args.on_uncovered))
        try:
            program = [*(["-m"] if args.is_module else []), args.program, *args.arguments]
            noting = recorder.record(args.into, args.level, steps, args.only, args.values, args.sha256, program)
            stack.enter_context(noting)
        except RecordError as error:
            print(f"repdl {error}", file=sys.stderr)
            return 2
        execute(args.program, args.arguments, args.is_module)
    return 0


def diff(args: argparse.Namespace) -> int:
    """Where two records, checkpoints or other files of tensors part: 0 if they are equal, 1 if they differ, 2 if they
    can't be compared to their ends."""
    if not any(is_record(path) or of_ranks(path) for path in (args.a, args.b)):
        if args.html is not None:
            print("repdl diff: --html is for files of `repdl record`, expected two of them", file=sys.stderr)
            return 2
        if args.a.is_file() and is_checkpoint(args.a):
            return compare_checkpoints(args.a, args.b, args.json)
        return compare_containers(args.a, args.b, args.most, args.json)
    of_a, of_b = (of_ranks(path) for path in (args.a, args.b))
    if of_a and of_b:
        return _diff_of_ranks(args, of_a, of_b)
    try:
        found = compare.diff(args.a, args.b)
        if args.html is not None:
            args.html.write_text(page(found, args.most), encoding="utf-8")
    except RecordError as error:
        print(f"repdl diff: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"repdl diff: {args.html} can't be written: {error.strerror}", file=sys.stderr)
        return 2
    print(json.dumps(found.as_json(args.most), indent=2) if args.json else "\n".join(compare.report(found, args.most)))
    return found.status


def _diff_of_ranks(args: argparse.Namespace, of_a: Mapping[int, Path], of_b: Mapping[int, Path]) -> int:
    """The same of the files of each rank; the rank that parts first is named first."""
    if of_a.keys() != of_b.keys() or args.html is not None:
        wrong = "--html is for one rank: name its two files" if args.html else "other ranks"
        print(f"repdl diff: a has ranks {[*of_a]}, b has {[*of_b]}: {wrong}", file=sys.stderr)
        return 2
    try:
        found = {rank: compare.diff(of_a[rank], of_b[rank]) for rank in of_a}
    except RecordError as error:
        print(f"repdl diff: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"ranks": {rank: each.as_json(args.most) for rank, each in found.items()}}, indent=2))
    else:
        parted = {rank: each.findings[0].step for rank, each in found.items() if each.findings}
        if parted:
            first = min(parted.values())
            print(f"the runs part in step {first}, of rank {', '.join(str(r) for r in parted if parted[r] == first)}")
        for rank, each in found.items():
            print("".join(f"rank {rank}: {line}\n" for line in compare.report(each, args.most)), end="")
    statuses = {each.status for each in found.values()}
    return 1 if 1 in statuses else max(statuses)


def again(args: argparse.Namespace) -> int:
    """An op of a record computed again: 0 if torch's or RepDL's result is the recorded one, 1 if neither is, 2 if it
    can't be computed."""
    try:
        entry, results = rerun(args.file, args.op)
    except RecordError as error:
        print(f"repdl {error}", file=sys.stderr)
        return 2
    recorded, *others = results
    if args.json:
        print(json.dumps({"entry": entry.as_json(), "results": [asdict(result) for result in results]}, indent=2))
    else:
        print("\n".join(shown_results(entry, results)))
    if not any(result.digests for result in others):
        return 2
    return 0 if any(result.digests == recorded.digests for result in others) else 1


def trial(args: argparse.Namespace) -> int:
    """A program in several settings: 0 if RepDL gives one result, 1 if not, 2 if the program fails by itself."""
    from tqdm import tqdm

    def progress(settings: Sequence[Setting]) -> Iterable[Setting]:
        return tqdm(settings, "runs", unit="run", leave=False, disable=None)

    found = try_program(args.program, args.arguments, args.is_module, args.keep, progress)
    print(json.dumps(found.as_json(), indent=2) if args.json else "\n".join(report(found)))
    return found.status


__all__ = ["again", "diff", "record", "trial"]
