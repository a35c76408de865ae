"""The `repdl` command: what is installed, what is covered, and a self-check of this machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import repdl
from repdl.cli import listing
from repdl.cli.arguments import parser
from repdl.errors import BackendError, ContractError
from repdl.launcher import launch
from repdl.overrides.program import NotBegunError, run_program
from repdl.registry.backend import backends, get_backend
from repdl.registry.families import families
from repdl.registry.plugins import plugins
from repdl.settings.garbage import keep_modules
from repdl.utils import table

if TYPE_CHECKING:
    from repdl.testing.check import Report


def shown(details: Mapping[str, str]) -> str:
    """What a backend tells of itself, on a line."""
    return ", ".join(f"{key} {value}" for key, value in details.items())


def facts() -> dict[str, Any]:
    """What `repdl info` shows."""
    loaded = plugins()  # first: they add to what backends implement
    return {
        "repdl": repdl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "threads": repdl.get_num_threads(),
        "contract": str(repdl.get_contract()),
        "initialisation": initialisation(),
        "backend": os.environ.get("REPDL_BACKEND") or None,
        "backends": [asdict(row) | {"details": dict(row.details)} for row in backends().values()],
        "plugins": [asdict(plugin) for plugin in loaded],
    }


def initialisation() -> str:
    """What draws the initial values of RepDL's layers in this process."""
    if repdl.random.initialises():
        return f"repdl.random, seed {repdl.random.initial_seed()}"
    return "torch, as repdl.random.manual_seed was not called"


def info(as_json: bool = False) -> int:
    """Versions, backends, contract, threads, and the plug-ins that bring ops; 1 if one of them is broken, 2 if
    REPDL_BACKEND names none."""
    known = facts()
    broken = any(row["broken"] for row in known["backends"]) or any(row["error"] for row in known["plugins"])
    status = chosen_backend() if known["backend"] else 0
    if as_json:
        print(json.dumps(known, indent=2))
        return status or int(broken)
    print("repdl {repdl}, torch {torch}, Python {python}".format(**known))
    print("{machine}, {system}, {threads} threads, contract {contract}".format(**known))
    if known["backend"]:
        print("every op by the backend {backend}, as REPDL_BACKEND says".format(**known))
    print("initial values of layers: {initialisation}".format(**known))
    rows = [("backend", "device", "ops", "details")]
    for row in backends().values():
        rows.append((row.name, row.device, str(row.ops), row.error or shown(row.details)))
    print(table(rows))
    if plugins():
        states = [(p.name, f"{p.distribution} {p.version}", p.error or "loaded") for p in plugins()]
        print(table([("plug-in", "from", "state"), *states]))
    return status or int(broken)


def chosen_backend() -> int:
    """Say what is wrong with the backend that REPDL_BACKEND names: 2 if it is not installed, 1 if it is broken."""
    name = os.environ.get("REPDL_BACKEND", "")
    try:
        if name:
            get_backend(name)
    except BackendError as error:
        print(f"repdl: REPDL_BACKEND: {error}", file=sys.stderr)
        return 1 if name in backends() else 2
    return 0


def ops(
    names: Sequence[str] = (),
    only: Sequence[str] = (),
    by: Sequence[str] = (),
    lacking: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Every registered op that is asked for, its files, and the backends that implement it; 1 if one of `names` means
    none, or a plug-in or backend is broken."""
    rows, unknown = listing.listed(names, only, by, lacking)
    broken = [*broken_backends(), *broken_plugins()]
    if as_json:
        print(json.dumps(listing.as_shape(rows) | {"broken": broken}, indent=2))
    else:
        print("\n".join([listing.table_of(rows), *broken]))
    for name in unknown:
        advice = f"; `repdl ops '*{name}*'` lists those like it" if name.isidentifier() else ""
        print(f"repdl ops: no op is called {name!r}{advice}", file=sys.stderr)
    return 1 if broken or unknown else 0


def broken_plugins() -> list[str]:
    """A line for each plug-in that failed to load."""
    return [f"broken plug-in {plugin}: {plugin.error}" for plugin in plugins() if plugin.error is not None]


def broken_backends() -> list[str]:
    """A line for each backend that failed to load."""
    return [f"broken backend {row.name}: {row.error}" for row in backends().values() if row.broken]


def contract(op: str, as_json: bool = False) -> int:
    """The contract text of an op, of a function of `repdl.ops` or of a family."""
    family = families().get(listing.family_of_name(op))
    text = None if family is None else family.text()
    if family is None or text is None:
        whose = f" of {family.distribution}" if family is not None else ""
        print(f"repdl: no contract text for {op!r}{whose}; `repdl ops` lists the ops and their texts", file=sys.stderr)
        return 1
    shape = {"name": op, "family": family.name, "distribution": family.distribution, "text": text}
    print(json.dumps(shape, indent=2) if as_json else text, end="\n" if as_json else "")
    return 0


def check(
    chosen: Sequence[str],
    only: Sequence[str] = (),
    most: int | None = None,
    contracts: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Compare each backend with the golden bits; 1 if a bit or a derivative differs, or a backend or plug-in is broken,
    or there was nothing to compare, of all or of what is named: a family on a backend, or on any if none is named.

    The last line of RepDL's own ops on a backend is a row of docs/parity.md; its digest is
    over those of all cases. Other projects' ops have a row of their own.
    """
    from tqdm import tqdm

    from repdl.testing.check import check_backend
    from repdl.testing.run import CONTRACTS

    def progress(cases: Iterable[Any], what: str) -> Iterable[Any]:
        # To stderr, and only if that is a terminal (disable=None).
        return tqdm(cases, what, unit="case", leave=False, disable=None)

    problems, known = broken_plugins(), families()
    failed, under = len(problems), tuple(dict.fromkeys(contracts)) or CONTRACTS

    def say(line: str) -> None:
        problems.append(line)
        if not as_json:
            print(line)

    if not as_json:
        print("".join(f"{line}\n" for line in problems), end="")
    compared: dict[str, set[str]] = {}
    shapes = []
    for name in chosen or sorted(backends()):
        try:
            get_backend(name)
        except BackendError as error:
            say(f"{name}: {error}")
            failed += 1
            continue
        compared[name] = set()
        mine = [known[f] for f in only] if only else known.values()
        for report in check_backend(name, mine, progress, most, under):
            shapes.append(shape_of(name, report))
            if not as_json:
                print_report(name, report, under, bool(only))
            failed += report.failed
            compared[name] |= report.families
        nothing = [f" of {family}" for family in dict.fromkeys(only) if family not in compared[name]]
        for of_family in nothing if only else [""] * (not compared[name]):
            say(f"{name}: nothing to compare{of_family}")
            failed += bool(chosen)
    if as_json:
        shape = {"date": str(date.today()), "contracts": under, "reports": shapes, "problems": problems}
        print(json.dumps(shape, indent=2))
    somewhere = set().union(*compared.values())
    return 1 if failed or not somewhere or not somewhere.issuperset(only) else 0


def machine_of(backend: str) -> str:
    """The machine, as the backend describes it."""
    return f"{platform.machine()}, {shown(get_backend(backend).describe())}"


def shape_of(backend: str, report: Report) -> dict[str, Any]:
    """A report for `repdl check --json`."""
    return {"backend": backend, "machine": machine_of(backend), **asdict(report), "families": sorted(report.families)}


def print_report(backend: str, report: Report, under: Sequence[str], is_named: bool) -> None:
    """What differs and what is missing, and the row for a table."""
    name = backend if report.distribution == "repdl-core" else f"{backend}, {report.distribution}"
    contracts = " and ".join(under)
    print(f"{name}: {report.compared} cases under {contracts}, {len(report.wrong)} differ from the golden bits")
    if report.uncovered:
        print(f"  {report.uncovered} cases in dtypes without a kernel are left out")
    if report.derivatives:
        print(f"  derivatives of {report.derivatives} ops compared with differences, {len(report.no_slopes)} wrong")
    if report.lacking:
        many = f"{len(report.lacking)} ops, which `repdl ops --lacking {backend}` lists"
        print(f"  not implemented: {', '.join(report.lacking) if is_named else many}")
    for line in report.missing:
        print(f"  not compared: {line}")
    for line in report.broken:
        print(f"  broken: {line}")
    for line in shortened([*map(str, report.wrong), *report.no_slopes]):
        print(f"  {line}")
    numbers = f"{report.compared} | {len(report.wrong)} | {report.digest}"
    print(f"| {date.today()} | {name} | {machine_of(backend)} | {contracts} | {numbers} |")


def shortened(lines: Sequence[str], most: int = 20) -> list[str]:
    """The first lines, and how many there are besides."""
    return [*lines[:most], *([f"and {len(lines) - most} more; --json has all"] if len(lines) > most else [])]


def golden(wanted: Sequence[str], into: Path, only_check: bool, as_json: bool = False) -> int:
    """Record the golden bits of new cases; 1 if one is wrong."""
    from repdl.testing.record import record

    known = families()
    found = [record(known[name], into, only_check) for name in wanted]
    if as_json:
        print(json.dumps({"families": [asdict(recorded) for recorded in found]}, indent=2))
    else:
        print("".join(f"{line}\n" for recorded in found for line in recorded.lines()), end="")
    return 1 if any(recorded.failed for recorded in found) else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `repdl` command: 0, or 1 for what is broken or differs, or 2 for what was asked wrongly."""
    if argv is None:  # this process is the command
        keep_modules()
    try:
        return run(parser().parse_args(argv))
    except NotBegunError as error:
        print(f"repdl run: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # of `repdl ops | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run(args: argparse.Namespace) -> int:
    """Run the command that was chosen."""
    try:
        repdl.get_contract()
    except ContractError as error:
        print(f"repdl: {error}", file=sys.stderr)
        return 2
    if args.command == "run" and args.is_quiet and args.ranks is None:
        raise NotBegunError("--quiet is for ranks other than 0, expected --ranks beside it")
    for option in ("every", "sign"):
        if args.command == "run" and getattr(args, option) is not None and args.receipt is None:
            raise NotBegunError(f"--{option} is for receipts, expected --receipt beside it")
    if args.command == "run" and args.ranks is not None and args.receipt is not None:
        raise NotBegunError("--receipt is for one process, expected no --ranks beside it")
    if args.command == "run" and args.ranks is not None and (ended := launch(args.ranks, args.is_quiet)) is not None:
        return ended
    if args.command in ("run", "record", "verify", "check", "golden") and (status := chosen_backend()):
        return status
    if args.command == "info":
        return info(args.json)
    if args.command == "ops":
        return ops(args.name, args.family, args.backend, args.lacking, args.json)
    if args.command == "contract":
        return contract(args.op, args.json)
    if args.command == "check" and args.distributed:
        from repdl.cli.ranks import check_ranks

        return check_ranks()
    if args.command == "check":
        return check(args.backend, args.family, args.cases, args.contract, args.json)
    if args.command in ("checkpoint", "digest"):
        from repdl.cli import checkpoints

        if args.command == "digest":
            return checkpoints.digests(args.files, args.tensors, args.json)
        if args.action == "show":
            return checkpoints.show(args.path, args.json)
        return checkpoints.compare(args.a, args.b, args.json)
    if args.command in ("record", "diff", "rerun", "try"):
        from repdl.cli import records

        return getattr(records, {"rerun": "again", "try": "trial"}.get(args.command, args.command))(args)
    if args.command == "verify" or (args.command == "run" and args.receipt is not None):
        from repdl.cli import receipts

        return getattr(receipts, args.command)(args)
    if args.command == "run":
        run_program(args.program, args.arguments, args.is_module, args.contract, args.on_uncovered)
        return 0
    return golden(args.family, args.into, args.check, args.json)


if __name__ == "__main__":
    raise SystemExit(main())
