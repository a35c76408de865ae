"""The arguments of the `repdl` command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import repdl
from repdl.cli.listing import family_of_name
from repdl.errors import BackendError, ContractError
from repdl.overrides.switch import ON_UNCOVERED
from repdl.records.entries import LEVELS
from repdl.registry.backend import backends, get_backend
from repdl.registry.families import families

RESUME = "--resume {checkpoint}"
"""What a program is given to go on from a checkpoint, unless the user says it."""


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


def recorded_contract(text: str) -> str:
    """The name of a contract that golden bits are recorded for, for the parser."""
    from repdl.testing.run import CONTRACTS

    if contract_name(text) not in CONTRACTS:
        known = " and ".join(CONTRACTS)
        raise argparse.ArgumentTypeError(f"no golden bits are recorded for {text!r}, but for {known}")
    return contract_name(text)


def positive(text: str) -> int:
    """A positive integer, for the parser."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected 1 or more")
    return int(text)


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

    def command(name: str, summary: str, details: str, json: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {details}")
        if json:
            made.add_argument("--json", action="store_true", help="as JSON, for bug reports and scripts")
        return made

    command(
        "info", "versions, backends, contract and threads",
        "A backend or plug-in that failed to load is listed with its error, and the command exits with 1.",
    )  # fmt: skip
    one = command(
        "ops", "every op, and the backends that implement it",
        "With the contract text of each, the number of its cases and the distribution that brings it; "
        "exits with 1 if a NAME means none, or a plug-in or a backend is broken. Options together narrow the list.",
    )  # fmt: skip
    one.add_argument(
        "name", metavar="NAME", nargs="*",
        help="an op, several with * and ?, or a function of repdl.ops for the ops of its family; default: all",
    )  # fmt: skip
    one.add_argument(
        "--family", metavar="FAMILY", action="append", default=[], type=family_name, help="the ops of this family"
    )
    one.add_argument(
        "--backend", metavar="BACKEND", action="append", default=[], type=backend_name,
        help="what this backend implements; of several, what all of them do",
    )  # fmt: skip
    one.add_argument(
        "--lacking", metavar="BACKEND", action="append", default=[], type=backend_name,
        help="what this backend does not implement; of several, what one of them does not",
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
    one.add_argument(
        "--contract", metavar="NAME", action="append", default=[], type=recorded_contract,
        help="only under this contract; may be repeated; default: all that golden bits are recorded for",
    )  # fmt: skip
    one.add_argument("--cases", metavar="N", type=int, help="at most N cases of each op, for tools that make them slow")
    one.add_argument(
        "--distributed", action="store_true",
        help="only reductions over ranks, by the processes that a launcher such as torchrun has started",
    )  # fmt: skip
    _checkpoint(commands)
    one = command(
        "digest", "the digest of what files of weights hold",
        "Of safetensors, of torch.save (read with weights_only=True), or of a folder of them. It depends on names, "
        "dtypes, shapes and elements, and not on the container: as `repdl.digest` of the state dict. Exits with 2 if "
        "a file can't be read.",
    )  # fmt: skip
    one.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a file or a folder")
    one.add_argument("--tensors", action="store_true", help="the digest of each tensor too")
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
        "An op that is not reproducible raises an error, which names it and its line.", json=False,
    )  # fmt: skip
    one.add_argument(
        "--ranks", metavar="M", type=positive,
        help="run as M ranks of torch.distributed, which this process begins, or the processes of torchrun together",
    )  # fmt: skip
    one.add_argument(
        "--quiet", dest="is_quiet", action="store_true",
        help="with --ranks: show what rank 0 prints only, and the last lines of a rank that fails",
    )  # fmt: skip
    one.add_argument(
        "--receipt", metavar="FILE", type=Path,
        help="write what it trains, step by step, which `repdl verify` compares with another execution",
    )  # fmt: skip
    one.add_argument(
        "--every", metavar="N", type=positive,
        help="with --receipt: hash parameters and the optimizer's state each N steps; default: 1",
    )  # fmt: skip
    one.add_argument(
        "--sign", metavar="KEY", type=Path,
        help="with --receipt: sign it by this private key, a PEM file (needs securesystemslib)",
    )  # fmt: skip
    _program(one)
    one = command(
        "verify", "execute the program of a receipt again, and compare it step by step",
        "On any machine: `repdl run --receipt FILE` wrote it. The first step that differs is named, and the program is "
        "stopped there. Exits with 0 if every step agrees, 1 if one or a file of the program differs, and 2 if the "
        "receipt was edited or the program can't be executed.",
    )  # fmt: skip
    one.add_argument("file", metavar="FILE", type=Path, help="the receipt")
    one.add_argument("--steps", metavar="N", type=positive, help="only N steps; default: all")
    one.add_argument(
        "--checkpoints", metavar="PATH",
        help="the program's own checkpoints, with {step} for the number of steps made: run/step-{step}.pt",
    )  # fmt: skip
    one.add_argument(
        "--resume", metavar="ARGUMENTS", default=RESUME,
        help="what the program is given to go on from one: --resume='--ckpt {checkpoint}'; default: %(default)r",
    )  # fmt: skip
    where = one.add_mutually_exclusive_group()
    where.add_argument("--first", metavar="N", type=positive, help="go on from the checkpoint after N steps")
    where.add_argument(
        "--sample", metavar="K", type=positive,
        help="execute K parts that are drawn, from a checkpoint to the next one or for --steps steps",
    )  # fmt: skip
    one.add_argument(
        "--key", metavar="KEY", type=Path, action="append", default=[],
        help="a public key, a PEM file, that must have signed the receipt; may be repeated",
    )  # fmt: skip
    _records(command)
    return top


def _program(one: argparse.ArgumentParser) -> None:
    """The arguments that say what is run, and by which rules."""
    one.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is the name of a module")
    one.add_argument("--contract", metavar="NAME", type=contract_name, help="the contract to compute by; default: v1")
    one.add_argument("--on-uncovered", choices=ON_UNCOVERED, default="raise", help="default: raise")
    one.add_argument("program", metavar="PROGRAM", help="a file")
    one.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="the program's own")


END = 1 << 62
"""More steps than a program has."""


def range_of_steps(text: str) -> range:
    """`A:B` or `A:`, for the parser."""
    first, colon, end = text.partition(":")
    if not colon or not first.isdecimal() or not (end.isdecimal() or not end):
        raise argparse.ArgumentTypeError(f"{text!r} steps, expected A:B, for example 10:20")
    return range(int(first), int(end) if end else END)


def _records(command: Callable[..., argparse.ArgumentParser]) -> None:
    """`repdl record`, `repdl diff`, `repdl rerun` and `repdl try`."""
    one = command(
        "try", "run a program in several settings, by torch and reproducibly",
        "With other numbers of threads and other instructions. It shows how many different results each gives, where "
        "torch's part, which ops are refused, time and memory. Exits with 0 if all runs under `repdl.enable()` give "
        "one result, 1 if not, and 2 if the program fails by itself.",
    )  # fmt: skip
    one.add_argument("--keep", metavar="FOLDER", type=Path, help="where records and what the runs print are kept")
    one.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is the name of a module")
    one.add_argument("program", metavar="PROGRAM", help="a file")
    one.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="the program's own")
    one = command(
        "record", "run a program and note what it computes, op by op",
        "By torch as it is, or with --enable as `repdl run`. `repdl diff` compares the files of two runs.", json=False,
    )  # fmt: skip
    one.add_argument(
        "-o",
        dest="into",
        metavar="FILE",
        type=Path,
        required=True,
        help="the file that is written; for example a.repdl",
    )
    one.add_argument("--enable", action="store_true", help="with every op of torch reproducible, or stopped")
    one.add_argument(
        "--level", choices=LEVELS, default="op",
        help="op: every op (default); module: calls of modules; step: the parameters after each step of an optimizer",
    )  # fmt: skip
    one.add_argument(
        "--steps",
        metavar="A:B",
        type=range_of_steps,
        help="ops and modules of these steps, the first is 0; default: all",
    )
    one.add_argument("--every", metavar="N", type=positive, help="of these steps only one in N")
    one.add_argument(
        "--values", action="store_true",
        help="keep the tensors that are noted, in FILE.values: then `repdl diff` shows how far elements are apart",
    )  # fmt: skip
    one.add_argument(
        "--sha256", action="store_true", help="note the SHA-256 of tensors too: nobody can make another of it"
    )  # fmt: skip
    one.add_argument(
        "--only",
        metavar="PATTERN",
        default="*",
        help="modules whose paths match, for example 'layer.3*', and their ops",
    )
    _program(one)
    one = command(
        "diff", "where two runs part, by the files of `repdl record`; or two checkpoints",
        "Of records the first op whose inputs agree and whose outputs differ, or what else comes first: other "
        "arguments, another batch, a draw more, an input that no op made. Of files of weights which tensors differ, "
        "and how far. Exits with 0 if they are equal, 1 if they differ, and 2 if they can't be compared to their ends.",
    )  # fmt: skip
    one.add_argument("a", metavar="A", type=Path, help="a file of `repdl record`, a checkpoint, or a folder")
    one.add_argument("b", metavar="B", type=Path, help="another one")
    one.add_argument("--most", metavar="N", type=int, default=10, help="show at most N differences; default: 10")
    one.add_argument("--html", metavar="PAGE", type=Path, help="of records: write a page too, for a browser")
    one = command(
        "rerun", "compute an op of a record again, by torch and by RepDL",
        "On this machine, of the inputs that `repdl record --values` kept. Exits with 0 if one of them gives the "
        "recorded result, 1 if neither does, and 2 if the op can't be computed.",
    )  # fmt: skip
    one.add_argument("file", metavar="FILE", type=Path, help="a file of `repdl record --values`")
    one.add_argument("--op", metavar="N", type=int, required=True, help="the entry, as `repdl diff` names it")


def _checkpoint(commands: Any) -> None:
    """`repdl checkpoint show PATH` and `repdl checkpoint diff A B`."""
    summary = "what is in a checkpoint of repdl.checkpoint, and where two differ"
    made = commands.add_parser("checkpoint", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary, details in (
        (
            "show", "names, shapes, digests, generators and the chain of a checkpoint",
            "Every byte is checked; exits with 1 if the file is damaged.",
        ),
        (
            "diff", "the first state path where two checkpoints differ",
            "Of two folders: in the first checkpoint that differs, of the names that both have. Exits with 1 if there "
            "is a difference, and with 2 if there is nothing to compare.",
        ),
    ):  # fmt: skip
        one = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {details}")
        one.add_argument("--json", action="store_true", help="as JSON, for bug reports and scripts")
        for argument in ("PATH",) if name == "show" else ("A", "B"):
            one.add_argument(
                argument.lower(), metavar=argument, type=Path, help="a file" if name == "show" else "a file or folder"
            )


__all__ = ["parser"]
