"""`repdl run --receipt` and `repdl verify`."""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from repdl.errors import ReceiptError
from repdl.overrides.program import enabled_with_children, execute
from repdl.receipts import Receipt, Verdict, read, receipt, verify as compared


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
        if (args.first is None and args.sample is None) != (args.checkpoints is None):
            raise ReceiptError("--checkpoints says from where --first or --sample goes on, expected both or none")
        if args.sample is not None:
            return _sample(args)
        verdict = _verified(args, args.first or 0, args.steps)
    except ReceiptError as error:
        print(f"repdl verify: {error}", file=sys.stderr)
        return 2
    print(json.dumps(_shape(verdict), indent=2) if args.json else "\n".join(verdict.lines()))
    return verdict.status


def _sample(args: argparse.Namespace) -> int:
    """What is behind some checkpoints, or behind all where there are no more, each in a process of its own."""
    known = read(args.file)
    there = [n for n in range(known.every, len(known.steps), known.every) if _checkpoint(args, n).exists()]
    if not there:
        raise ReceiptError(f"{args.checkpoints} names no checkpoint after a multiple of {known.every} steps")
    ends = dict(zip(there, [*there[1:], len(known.steps)]))
    found = []
    for first in sorted(random.SystemRandom().sample(there, min(args.sample, len(there)))):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            verdict = pool.submit(_verified, args, first, args.steps or ends[first] - first).result()
        found.append(verdict)
        if not args.json:
            others = [f"another file: {name}" for name in verdict.code]
            said = "; ".join([*([verdict.difference] if verdict.difference else []), *others])
            print(f"from step {first}: {verdict.steps} steps agree{said and f'; {said}'}", flush=True)
    status = max(verdict.status for verdict in found)
    if args.json:
        shapes = [_shape(verdict) for verdict in found]
        print(json.dumps({"status": status, "checkpoints": len(there), "found": shapes}, indent=2))
    else:
        print(f"{len(found)} of {len(there)} checkpoints were gone on from")
    return status


def _verified(args: argparse.Namespace, first: int, steps: int | None) -> Verdict:
    further = _resuming(args, first) if first else []

    def execute_again(known: Receipt) -> None:
        is_module = known.program[:1] == ["-m"]
        program, *arguments = known.program[is_module:]
        with enabled_with_children(known.contract, "raise"):
            execute(program, [*arguments, *further], is_module)

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
