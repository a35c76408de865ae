"""The `repdl` command: what is installed, what is covered, and a self-check of this machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

import repdl
from repdl.backend import backends, get_backend
from repdl.errors import BackendError, ContractError
from repdl.families import Family, families
from repdl.overrides.program import NotBegunError, run_program
from repdl.overrides.switch import ON_UNCOVERED
from repdl.plugins import plugins
from repdl.registry import OPS, implementations
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


def ops() -> int:
    """Every registered op, its files, and the backends that implement it."""
    known = families()  # first: plug-ins add to what backends implement
    names = [name for name, row in backends().items() if row.error is None]
    implemented = {name: implementations(get_backend(name)) for name in names}
    rows = [("op", "contract text", "cases", "from", *names)]
    for family in known.values():
        text, count = "none" if family.text() is None else family.name, case_counter(family)
        for op in sorted(op.name for op in OPS.values() if op.family == family.name):
            cells = ("yes" if op in implemented[name] else "-" for name in names)
            rows.append((op, text, count(op), family.distribution, *cells))
    print(table(rows))
    return 1 if broken_plugins() + broken_backends() else 0


def case_counter(family: Family) -> Callable[[str], str]:
    """A function that gives the number of cases of an op of a family, in words."""
    from repdl.testing.cases import with_derived, written

    try:
        counts = Counter(case.op for case in with_derived(written(family) or []))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return lambda op: reason
    return lambda op: str(counts[op] or "none")


def broken_plugins() -> int:
    """Print the plug-ins that failed to load; 1 if there are any."""
    broken = [plugin for plugin in plugins() if plugin.error is not None]
    for plugin in broken:
        print(f"broken plug-in {plugin}: {plugin.error}")
    return 1 if broken else 0


def broken_backends() -> int:
    """Print the backends that failed to load; 1 if there are any."""
    broken = [row for row in backends().values() if row.broken]
    for row in broken:
        print(f"broken backend {row.name}: {row.error}")
    return 1 if broken else 0


def contract(op: str) -> int:
    """The contract text of an op, of a function of `repdl.ops` or of a family."""
    family = families().get(family_of_name(op))
    text = None if family is None else family.text()
    if text is None:
        whose = f" of {family.distribution}" if family is not None else ""
        print(f"repdl: no contract text for {op!r}{whose}; `repdl ops` lists the ops and their texts", file=sys.stderr)
        return 1
    print(text, end="")
    return 0


def check(chosen: Sequence[str], only: Sequence[str] = (), most: int | None = None) -> int:
    """Compare each backend with the golden bits; 1 if a bit or a derivative differs, or a backend or plug-in is broken,
    or there was nothing to compare, of all or of what is named: a family on a backend, or on any if none is named.

    The last line of RepDL's own ops on a backend is a row of docs/parity.md; its digest is
    over those of all cases. Other projects' ops have a row of their own.
    """
    from tqdm import tqdm

    from repdl.testing.check import check_backend

    def progress(cases: Iterable[Any], what: str) -> Iterable[Any]:
        # To stderr, and only if that is a terminal (disable=None).
        return tqdm(cases, what, unit="case", leave=False, disable=None)

    failed, known = broken_plugins(), families()
    compared: dict[str, set[str]] = {}
    for name in chosen or sorted(backends()):
        try:
            get_backend(name)
        except BackendError as error:
            print(f"{name}: {error}")
            failed += 1
            continue
        compared[name] = set()
        for report in check_backend(name, [known[f] for f in only] if only else known.values(), progress, most):
            print_report(name, report, bool(only))
            failed += report.failed
            compared[name] |= report.families
        nothing = [f" of {family}" for family in dict.fromkeys(only) if family not in compared[name]]
        for of_family in nothing if only else [""] * (not compared[name]):
            print(f"{name}: nothing to compare{of_family}")
            failed += bool(chosen)
    somewhere = set().union(*compared.values())
    return 1 if failed or not somewhere or not somewhere.issuperset(only) else 0


def print_report(backend: str, report: Report, is_named: bool) -> None:
    """What differs and what is missing, and the row for a table."""
    from repdl.testing.run import CONTRACTS

    name = backend if report.distribution == "repdl-core" else f"{backend}, {report.distribution}"
    under = " and ".join(CONTRACTS)
    print(f"{name}: {report.compared} cases under {under}, {len(report.wrong)} differ from the golden bits")
    if report.uncovered:
        print(f"  {report.uncovered} cases in dtypes without a kernel are left out")
    if report.derivatives:
        print(f"  derivatives of {report.derivatives} ops compared with differences, {len(report.no_slopes)} wrong")
    if report.lacking:
        listed = ", ".join(report.lacking) if is_named else f"{len(report.lacking)} ops, which `repdl ops` lists"
        print(f"  not implemented: {listed}")
    for line in report.missing:
        print(f"  not compared: {line}")
    for line in report.broken:
        print(f"  broken: {line}")
    for line in (report.wrong + report.no_slopes)[:20]:
        print(f"  {line}")
    machine = f"{platform.machine()}, {shown(get_backend(backend).describe())}"
    numbers = f"{report.compared} | {len(report.wrong)} | {report.digest}"
    print(f"| {date.today()} | {name} | {machine} | {under} | {numbers} |")


def golden(wanted: Sequence[str], into: Path, only_check: bool) -> int:
    """Record the golden bits of new cases; 1 if one is wrong."""
    from repdl.testing.record import record

    known = families()
    return 1 if sum(record(known[name], into, only_check) for name in wanted) else 0


def family_of_name(name: str) -> str:
    """The family of an op or, by its docstring, of a function of `repdl.ops`; other names as they are."""
    plugins()
    if name in OPS:
        return OPS[name].family
    if name in repdl.ops.__all__:
        return str(getattr(repdl.ops, name).__doc__).partition("Contract: ")[2].split()[0]
    return name


def family_name(text: str) -> str:
    """The name of a family, for the parser: an unknown one is its error."""
    name = family_of_name(text)
    if name not in families():
        raise argparse.ArgumentTypeError(f"no family of ops {text!r}; `repdl ops` lists the ops")
    return name


def backend_name(text: str) -> str:
    """The name of an installed backend, for the parser."""
    try:
        get_backend(text)
    except BackendError as error:
        if text not in backends():
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def contract_name(text: str) -> str:
    """The name of a contract, for the parser."""
    try:
        return str(repdl.Contract.parse(text))
    except ContractError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("Contract: ")) from None


class Parser(argparse.ArgumentParser):
    """A parser whose errors are a line."""

    def error(self, message: str) -> NoReturn:
        """End the process with status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = Parser(
        prog="repdl",
        description="Deep learning with the same bits on any machine: what is installed, and a check of it.",
        epilog="`repdl COMMAND --help` says more about a command.",
    )
    top.add_argument("--version", action="version", version=f"repdl {repdl.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, details: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {details}")

    one = command(
        "info", "versions, backends, contract and threads",
        "A backend or plug-in that failed to load is listed with its error, and the command exits with 1.",
    )  # fmt: skip
    one.add_argument("--json", action="store_true", help="as JSON, for bug reports and scripts")
    command(
        "ops", "every op, and the backends that implement it",
        "With the contract text of each, the number of its cases and the distribution that brings it; "
        "exits with 1 if a plug-in or a backend is broken.",
    )  # fmt: skip
    one = command("contract", "print the contract text of an op", "It says every rounding and its order.")
    one.add_argument("op", metavar="OP", help="an op, a function of repdl.ops or a family, for example mm")
    one = command(
        "check", "compare this machine's bits with the golden ones",
        "Every case of every op runs on each backend; other projects' derivatives are compared with differences. "
        "Exits with 1 if one differs, something is broken, or what is named has nothing to compare. "
        "The last line of a backend is a row for docs/parity.md.",
    )  # fmt: skip
    one.add_argument(
        "backend", metavar="BACKEND", nargs="*", type=backend_name, help="for example cpu; default: every installed one"
    )
    one.add_argument(
        "--family", metavar="FAMILY", action="append", default=[], type=family_name,
        help="only this family of ops, or the family of this op; may be repeated",
    )  # fmt: skip
    one.add_argument("--cases", metavar="N", type=int, help="at most N cases of each op, for tools that make them slow")
    one = command(
        "golden", "record the golden bits of new cases",
        "They are the digests of what the reference backend gives. One that is recorded already never "
        "changes: if it differs, nothing is written. For projects that bring their own ops.",
    )  # fmt: skip
    one.add_argument("family", metavar="FAMILY", nargs="+", type=family_name, help="a family of ops, or an op of it")
    one.add_argument("--into", metavar="FOLDER", type=Path, required=True, help="the folder of FAMILY.json")
    one.add_argument("--check", action="store_true", help="write nothing; a digest that is not there is wrong too")
    one = command(
        "run", "run a program of torch with every op reproducible, or stopped",
        "As `repdl.enable()` in its first line: `repdl run train.py --epochs 3`, `repdl run -m package.train`. "
        "An op that is not reproducible raises an error, which names it and its line.",
    )  # fmt: skip
    one.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is the name of a module")
    one.add_argument("--contract", metavar="NAME", type=contract_name, help="the contract to compute by; default: v1")
    one.add_argument("--on-uncovered", choices=ON_UNCOVERED, default="raise", help="default: raise")
    one.add_argument("program", metavar="PROGRAM", help="a file")
    one.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="the program's own")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `repdl` command: 0, or 1 for what is broken or differs, or 2 for what was asked wrongly."""
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
    if args.command in ("run", "check", "golden") and (status := chosen_backend()):
        return status
    if args.command == "info":
        return info(args.json)
    if args.command == "ops":
        return ops()
    if args.command == "contract":
        return contract(args.op)
    if args.command == "check":
        return check(args.backend, args.family, args.cases)
    if args.command == "run":
        run_program(args.program, args.arguments, args.is_module, args.contract, args.on_uncovered)
        return 0
    return golden(args.family, args.into, args.check)


if __name__ == "__main__":
    raise SystemExit(main())
