"""`repdl run --receipt` and `repdl verify`."""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, redirect_stdout
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any

from repdl.cli.arguments import RESUME
from repdl.errors import ReceiptError
from repdl.overrides.program import enabled_with_children, execute
from repdl.receipts import Receipt, Verdict, read, receipt, verify as compared

PREPARED = "repdl.overrides.prepared"
"""What the server imports."""


def run(args: argparse.Namespace) -> int:
    """Run a program reproducibly, and write its receipt: 2 if it can't be written."""
    program = [*(["-m"] if args.is_module else []), args.program, *args.arguments]
    try:
        with (
            enabled_with_children(args.contract, args.on_uncovered),
            receipt(args.receipt, args.every or 1, program, args.sign),
        ):
            execute(args.program, args.arguments, args.is_module)
    except ReceiptError as error:
        print(f"repdl run: {error}", file=sys.stderr)
        return 2
    return 0


def verify(args: argparse.Namespace) -> int:
    """Execute the program of a receipt again: 0 if every step agrees, 1 if one differs, 2 if it can't be executed."""
    try:
        _check(args)
        if args.sample is not None:
            return _sample(args)
        verdict = _verified(args, args.first or 0, args.steps)
    except ReceiptError as error:
        print(f"repdl verify: {error}", file=sys.stderr)
        return 2
    print(json.dumps(_shape(verdict), indent=2) if args.json else "\n".join(verdict.lines()))
    return verdict.status


def _check(args: argparse.Namespace) -> None:
    """Raise for options that need each other."""
    goes_on = args.first is not None or args.sample is not None
    if goes_on and args.checkpoints is None:
        raise ReceiptError("--first and --sample need --checkpoints; add --checkpoints 'run/step-{step}.pt'")
    if not goes_on and (args.checkpoints is not None or args.resume != RESUME):
        raise ReceiptError("--checkpoints and --resume need --first N or --sample K, which say where to go on")
    if args.checkpoints is not None and "{step}" not in args.checkpoints:
        raise ReceiptError(f"--checkpoints is {args.checkpoints}, expected {{step}} in it")


def _sample(args: argparse.Namespace) -> int:
    """Some of the parts between checkpoints, or all where there are no more, each in a process of its own."""
    known = read(args.file)
    there = [n for n in range(known.every, len(known.steps), known.every) if _checkpoint(args, n).exists()]
    if not there:
        raise ReceiptError(f"{args.checkpoints} names no checkpoint after a multiple of {known.every} steps")
    parts = dict(zip([0, *there], [*there, len(known.steps)]))
    found: list[Verdict] = []
    failed = 0
    for first in sorted(random.SystemRandom().sample([*parts], min(args.sample, len(parts)))):
        try:
            found.append(_in_process(args, first, args.steps or parts[first] - first))
        except ReceiptError as error:
            failed += 1
            print(f"repdl verify: from step {first}: {error}", file=sys.stderr)
            continue
        if not args.json:
            head, *said = found[-1].lines()
            print(f"{head}\n" * (len(found) == 1) + f"from step {first}: {'; '.join(said)}", flush=True)
    status = max((verdict.status for verdict in found), default=0) or (2 if failed else 0)
    if args.json:
        shapes = [_shape(verdict) for verdict in found]
        print(json.dumps({"status": status, "parts": len(parts), "failed": failed, "found": shapes}, indent=2))
    else:
        print(f"{len(found)} of {len(parts)} parts executed")
    return status


def _in_process(args: argparse.Namespace, first: int, steps: int) -> Verdict:
    # Where a server can fork, torch is imported once for all parts.
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    context.set_forkserver_preload([PREPARED])
    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(_verified, args, first, steps).result()
    except BrokenProcessPool as error:
        raise ReceiptError("the program ended its process") from error


def _verified(args: argparse.Namespace, first: int, steps: int | None) -> Verdict:
    further = _resuming(args, first) if first else []

    def execute_again(known: Receipt) -> None:
        is_module = known.program[:1] == ["-m"]
        program, *arguments = known.program[is_module:]
        says = redirect_stdout(sys.stderr) if args.json else nullcontext()
        with enabled_with_children(known.contract, "raise"), says:
            try:
                execute(program, [*arguments, *further], is_module)
            except Exception as error:
                traceback.print_exc()
                raise ReceiptError(f"the program failed: {type(error).__name__}: {error}") from None

    return compared(args.file, execute_again, steps, args.key, first)


def _checkpoint(args: argparse.Namespace, steps: int) -> Path:
    return Path(args.checkpoints.replace("{step}", str(steps)))


def _resuming(args: argparse.Namespace, steps: int) -> list[str]:
    """The arguments of a program that goes on after so many steps."""
    path = _checkpoint(args, steps)
    if not path.exists():
        raise ReceiptError(f"{path} is not there, expected the checkpoint after {steps} steps")
    return [word.replace("{checkpoint}", str(path)).replace("{step}", str(steps)) for word in shlex.split(args.resume)]


def _shape(verdict: Verdict) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "status": verdict.status, "first": verdict.first, "steps": verdict.steps, "difference": verdict.difference,
        "code": verdict.code, "signatures": verdict.receipt.signatures, "keys": verdict.keys,
        "environment": verdict.receipt.environment,
    }  # fmt: skip


__all__ = ["run", "verify"]
