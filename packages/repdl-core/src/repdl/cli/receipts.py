"""`repdl run --receipt` and `repdl verify`."""

from __future__ import annotations

import argparse
import json
import sys

from repdl.errors import ReceiptError
from repdl.overrides.program import enabled_with_children, execute
from repdl.receipts import Receipt, receipt, verify as compared


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
        verdict = compared(args.file, _execute, args.steps, args.key)
    except ReceiptError as error:
        print(f"repdl verify: {error}", file=sys.stderr)
        return 2
    shape = {
        "status": verdict.status, "steps": verdict.steps, "difference": verdict.difference, "code": verdict.code,
        "signatures": verdict.receipt.signatures, "keys": verdict.keys, "environment": verdict.receipt.environment,
    }  # fmt: skip
    print(json.dumps(shape, indent=2) if args.json else "\n".join(verdict.lines()))
    return verdict.status


def _execute(known: Receipt) -> None:
    is_module = known.program[:1] == ["-m"]
    program, *arguments = known.program[is_module:]
    with enabled_with_children(known.contract, "raise"):
        execute(program, arguments, is_module)


__all__ = ["run", "verify"]
