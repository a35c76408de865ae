"""The `repdl` command: what is installed, what is covered, and a self-check of this machine."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from hashlib import sha256
from importlib.resources import files

import torch

import repdl
from repdl.errors import BackendError
from repdl.registry import OPS, backends, get_backend, implementations


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of even width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def shown(details: Mapping[str, str]) -> str:
    """What a backend tells of itself, on a line."""
    return ", ".join(f"{key} {value}" for key, value in details.items())


def info() -> int:
    """Versions, backends, contract and threads."""
    print(f"repdl {repdl.__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    machine = f"{platform.machine()}, {platform.system()}"
    print(f"{machine}, {repdl.get_num_threads()} threads, contract {repdl.get_contract()}")
    rows = [("backend", "device", "ops", "details")]
    for row in backends().values():
        rows.append((row.name, row.device, str(row.ops), row.error or shown(row.details)))
    print(table(rows))
    return 0


def ops() -> int:
    """Every registered op, and the backends that implement it."""
    names = [name for name, row in backends().items() if row.error is None]
    implemented = {name: implementations(get_backend(name)) for name in names}
    rows = [("op", "contract text", *names)]
    for op in sorted(OPS.values(), key=lambda op: (op.family, op.name)):
        rows.append((op.name, op.family, *("yes" if op.name in implemented[name] else "-" for name in names)))
    print(table(rows))
    return 0


def contract(op: str) -> int:
    """The contract text of an op or of its family."""
    family = OPS[op].family if op in OPS else op
    path = files("repdl.contract") / "v1" / f"{family}.md"
    if not path.is_file():
        print(f"repdl: no contract text for {op!r}; `repdl ops` lists the ops and their texts")
        return 1
    print(path.read_text(), end="")
    return 0


def check(chosen: Sequence[str]) -> int:
    """Compare each backend with the golden bits; 1 if a bit differs or a backend is broken.

    The last line of each is a row of docs/parity.md; its digest is over those of all cases.
    """
    from repdl.testing import CONTRACTS, cases, covers, digests

    failed = 0
    for name in chosen or sorted(backends()):
        try:
            backend = get_backend(name)
        except BackendError as error:
            print(f"{name}: {error}")
            failed += 1
            continue
        implemented = implementations(backend)
        known = [case for case in cases() if case.op in implemented]
        todo = [case for case in known if covers(case, name)]
        lines, wrong = [], []
        for case in todo:
            for named in CONTRACTS:
                actual, recorded = digests(case, name, named)
                lines.append(f"{case} {named} {actual}\n")
                if actual != recorded:
                    wrong.append(f"{case} {named}: digest {actual}, recorded {recorded}")
        digest = sha256("".join(sorted(lines)).encode()).hexdigest()
        under = " and ".join(CONTRACTS)
        print(f"{name}: {len(todo)} cases under {under}, {len(wrong)} differ from the golden bits")
        if len(todo) < len(known):
            print(f"  {len(known) - len(todo)} cases in dtypes without a kernel are left out")
        for line in wrong[:20]:
            print(f"  {line}")
        machine = f"{platform.machine()}, {shown(backend.describe())}"
        print(f"| {date.today()} | {name} | {machine} | {under} | {len(todo)} | {len(wrong)} | {digest} |")
        failed += bool(wrong)
    return 1 if failed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `repdl` command."""
    parser = argparse.ArgumentParser(prog="repdl", description="Deep learning with the same bits on any machine.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("info", help="versions, backends, contract and threads")
    commands.add_parser("ops", help="every op, and the backends that implement it")
    text = commands.add_parser("contract", help="print the contract text of an op")
    text.add_argument("op", help="for example matmul")
    golden = commands.add_parser("check", help="compare this machine's bits with the golden ones")
    golden.add_argument("backend", nargs="*", help="default: every installed backend")
    args = parser.parse_args(argv)
    if args.command == "contract":
        return contract(args.op)
    if args.command == "check":
        return check(args.backend)
    return info() if args.command == "info" else ops()


if __name__ == "__main__":
    raise SystemExit(main())
