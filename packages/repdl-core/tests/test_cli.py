"""The `repdl` command: what it shows, and what it says of a backend with the recorded bits and of others."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import repdl
from repdl import contract
from repdl.cli import check, facts, main, shortened
from repdl.errors import UnavailableError
from repdl.registry import OPS, implementations
from repdl.registry.backend import BACKENDS, Backend, get_backend, register_backend, unregister_backend

REFERENCE = get_backend("reference").ops


def row(function: Callable[..., torch.Tensor], status: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The cells that are printed of a backend with this `neg`, and the reference's `cast`."""
    ops = {"neg": function, "cast": REFERENCE["cast"]}
    register_backend(Backend("small", "cpu", ops, describe=lambda: {"devices": "abacus"}))
    try:
        assert check(["small"]) == status
    finally:
        unregister_backend("small")
    return [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].strip("|").split("|")]


def test_check__row_of_the_parity_table(capsys: pytest.CaptureFixture[str]) -> None:
    neg = REFERENCE["neg"]
    good = row(neg, 0, capsys)
    _, name, machine, contracts, cases, wrong, digest = good
    assert (name, contracts, wrong) == ("small", "v1 and sequential", "0") and int(cases) > 0
    assert machine.endswith("devices abacus")
    bad = row(lambda input: neg(input).abs(), 1, capsys)
    assert int(bad[5]) > 0 and bad[6] != digest


def test_check__some_cases_of_each_op(capsys: pytest.CaptureFixture[str]) -> None:
    register_backend(Backend("small", "cpu", {name: REFERENCE[name] for name in ("neg", "abs", "cast")}))
    try:
        ops = implementations(get_backend("small"))  # those of formulas too
        for most in (1, 2):
            assert main(["check", "small", "--cases", str(most)]) == 0
            assert capsys.readouterr().out.startswith(f"small: {most * len(ops)} cases under")
    finally:
        unregister_backend("small")


def test_check__what_is_named_and_not_compared_fails(capsys: pytest.CaptureFixture[str]) -> None:
    ops = {name: REFERENCE[name] for name in ("exp", "cast", "max")}
    register_backend(Backend("small", "cpu", ops))
    try:
        assert main(["check", "small", "--family", "exp", "--family", "max"]) == 0
        text = capsys.readouterr().out
        assert "not implemented: " in text and "max_backward" in text and "nothing" not in text
        assert main(["check", "small", "--family", "exp", "--family", "matmul", "--family", "sum"]) == 1
        text = capsys.readouterr().out
        assert "small: nothing to compare of matmul\n" in text and "small: nothing to compare of sum\n" in text
        assert "of elementwise" not in text and ", matmul, sum" in text
        assert main(["check", "small", "reference", "--family", "matmul", "--cases", "1"]) == 1
        assert "small: nothing to compare of matmul\nreference: 1 cases" in capsys.readouterr().out
    finally:
        unregister_backend("small")


def test_check__a_difference_is_an_element_and_its_bits(capsys: pytest.CaptureFixture[str]) -> None:
    """As in tests, of the first ones; the list that is cut says how many there are besides."""
    wrong = {name: lambda input, f=REFERENCE[name]: -f(input) for name in ("neg", "abs", "tanh")}
    register_backend(Backend("small", "cpu", {**wrong, "cast": REFERENCE["cast"]}))
    command = ["check", "small", "--family", "neg", "--contract", "v1"]
    try:
        assert main(command) == 1
        first, *lines, _ = capsys.readouterr().out.splitlines()
        assert main([*command, "--json"]) == 1
        (report,) = json.loads(capsys.readouterr().out)["reports"]
    finally:
        unregister_backend("small")
    differ = re.fullmatch(r"small: \d+ cases under v1, (\d+) differ from the golden bits", first)
    assert differ is not None
    listed = [line for line in lines if " v1 " in line]
    element = r"\d+ of \d+ elements differ, first at \(.*\): .* \(0x\w+\), expected .* \(0x\w+\)"
    assert all(re.fullmatch(rf"  \w+ v1 output 0: {element}", line) for line in listed), listed
    count = int(differ[1])
    assert len(listed) == 20 < count and lines[-1] == f"  and {count - 20} more; --json has all"
    assert [wrong["difference"] is not None for wrong in report["wrong"]] == [i < 20 for i in range(count)]
    assert all(wrong["contract"] == "v1" and wrong["digest"] != wrong["recorded"] for wrong in report["wrong"])
    assert shortened(["a"] * 20) == ["a"] * 20


def test_check__of_contracts_that_are_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--contract", "sequential", "--contract", "v1", "--contract", "v1"]
    assert main(["check", "reference", "--family", "cast", "--cases", "1", *named]) == 0
    assert " cases under sequential and v1, 0 differ" in capsys.readouterr().out
    for name, says in {"nosuch": "is not a contract", "dot_chunk=3": "no golden bits are recorded for"}.items():
        with pytest.raises(SystemExit, match="2"):
            main(["check", "--contract", name])
        assert says in capsys.readouterr().err


def test_ops__what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*arguments: str) -> list[str]:
        status = main(["ops", *arguments, "--json"])
        printed = capsys.readouterr()
        assert status == 0, printed.err
        found = [row["op"] for row in json.loads(printed.out)["ops"]]
        assert main(["ops", *arguments]) == 0
        header, *rows = capsys.readouterr().out.splitlines()
        assert header.startswith("op ") and [row.split()[0] for row in rows] == found
        return found

    assert sorted(listed()) == sorted(OPS)
    assert listed("softmax") == ["softmax"] and listed("softm?x*") == ["softmax", "softmax_backward"]
    assert {OPS[name].family for name in listed("mm", "conv1d", "neg")} >= {"conv2d", "elementwise", "matmul"}
    assert listed("--family", "softmax", "soft*", "neg") == ["softmax", "softmax_backward"]
    assert "log_softmax" in listed("--family", "softmax")
    register_backend(Backend("small", "cpu", {"neg": REFERENCE["neg"]}))
    try:
        assert "neg" in listed("--backend", "small") and "neg" in listed("--backend", "small", "--backend", "reference")
        assert "matmul" not in listed("--backend", "small", "--backend", "reference")
        assert "matmul" in listed("--lacking", "small") and listed("neg", "--lacking", "small") == []
        assert listed("matmul", "--lacking", "small", "--lacking", "reference") == ["matmul"]
    finally:
        unregister_backend("small")
    assert listed("m?") == listed("mm", "mv") == ["matmul"]  # functions
    assert main(["ops", "neg", "nosuch"]) == 1
    printed = capsys.readouterr()
    assert "no op is called 'nosuch'; `repdl ops '*nosuch*'` lists those like it\n" in printed.err
    assert printed.out.splitlines()[1].split()[0] == "neg"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_check__progress_on_a_terminal_only(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stderr = stream()
    monkeypatch.setattr(sys, "stderr", stderr)
    register_backend(Backend("small", "cpu", {"neg": REFERENCE["neg"], "cast": REFERENCE["cast"]}))
    try:
        assert main(["check", "small", "--family", "neg"]) == 0
    finally:
        unregister_backend("small")
    assert ("small, repdl-core" in stderr.getvalue()) == (stream is Terminal)
    assert capsys.readouterr().out.startswith("small: ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"repdl {repdl.__version__}\n"


def test_command_line__what_is_asked_wrongly_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    program = tmp_path / "program.py"
    program.write_text("print('begun')\n")
    wrong = {
        "run nosuch.py": "repdl run: can't run nosuch.py: No such file or directory",
        "run -m nosuch": "repdl run: can't run nosuch: No module named nosuch",
        "run -m nosuch.deep": "repdl run: can't run nosuch.deep: .*No module named 'nosuch'.*",
        "run -m package": "repdl run: can't run package: No module named package.__main__.*",
        "run .": "repdl run: can't run .: can't find '__main__' module in '.'",
        "run --contract bogus program.py": "repdl run: argument --contract: 'bogus' is not a contract, .*",
        "run --on-uncovered bogus program.py": "repdl run: argument --on-uncovered: invalid choice: 'bogus'.*",
        "check nosuch": "repdl check: argument BACKEND: backend 'nosuch' is not installed .*",
        "check --cases few": "repdl check: argument --cases: invalid int value: 'few' .*",
        "golden nosuch --into .": "repdl golden: argument FAMILY: no family of ops 'nosuch'; .*",
        "nosuch": "repdl: argument COMMAND: invalid choice: 'nosuch' .*",
    }
    for command, line in wrong.items():
        assert outcome(command, monkeypatch) == 2, command
        printed = capsys.readouterr()
        assert not printed.out and re.fullmatch(line + "\n", printed.err), (command, printed.err)


def outcome(command: str, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", [])
        patch.setattr(sys, "path", [*sys.path])
        try:
            return main(command.split())
        except SystemExit as error:
            return error.code


def test_run__what_a_program_raises_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    for line, error in (
        ("import nosuch_library", ImportError),
        ("open('nosuch')", OSError),
        ("1 / 0", ZeroDivisionError),
    ):
        program.write_text(f"{line}\n")
        with pytest.raises(error):
            outcome(f"run {program}", monkeypatch)
    program.write_text("raise SystemExit(7)\n")
    assert outcome(f"run {program}", monkeypatch) == 7


def test_environment__what_it_names_wrongly_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPDL_BACKEND", "nosuch")
    assert main(["info"]) == 2
    printed = capsys.readouterr()
    assert re.fullmatch("repdl: REPDL_BACKEND: backend 'nosuch' is not installed .*\n", printed.err)
    assert "every op by the backend nosuch, as REPDL_BACKEND says" in printed.out and "reference" in printed.out
    for command in ("run nosuch.py", "check reference", "golden neg --into ."):
        assert main(command.split()) == 2, command
        assert re.fullmatch("repdl: REPDL_BACKEND: backend 'nosuch' is not .*\n", capsys.readouterr().err), command
    monkeypatch.delenv("REPDL_BACKEND")
    monkeypatch.setenv("REPDL_CONTRACT", "nosuch")
    monkeypatch.setattr(contract._setting, "default", "")
    for command in ("info", "ops", "contract mm", "check reference", "run nosuch.py"):
        assert main(command.split()) == 2, command
        printed = capsys.readouterr()
        assert not printed.out and re.fullmatch("repdl: REPDL_CONTRACT: 'nosuch' is not a .*\n", printed.err), command


def test_info__a_broken_backend_is_a_failure_and_a_missing_device_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {row.name: row for row in repdl.backends().values()}
    assert not any(row.broken for row in known.values()) and main(["info"]) == 0
    monkeypatch.setitem(BACKENDS._failed, "absent", UnavailableError("no device"))
    assert main(["info"]) == 0 and "no device" in capsys.readouterr().out
    monkeypatch.setitem(BACKENDS._failed, "bad", OSError("libbad.so not found"))
    assert main(["info"]) == 1 and "OSError: libbad.so not found" in capsys.readouterr().out
    assert main(["ops"]) == 1 and "\nbroken backend bad: OSError: libbad.so not found\n" in capsys.readouterr().out
    for name in ("bad", "absent"):
        monkeypatch.setenv("REPDL_BACKEND", name)
        assert main(["info"]) == 1 and f"REPDL_BACKEND: backend '{name}' is installed but" in capsys.readouterr().err


def test_info__says_who_draws_initial_values(capsys: pytest.CaptureFixture[str]) -> None:
    with repdl.random.fork_rng():
        assert main(["info"]) == 0 and facts()["initialisation"].startswith(
            "torch, as repdl.random.manual_seed was not"
        )
        repdl.random.manual_seed(7)
        assert main(["info"]) == 0 and facts()["initialisation"] == "repdl.random, seed 7"
    assert "initial values of layers: repdl.random, seed 7" in capsys.readouterr().out


def test_info__as_json_says_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert known["repdl"] == repdl.__version__ and known["torch"] == torch.__version__
    for key in ("torch", "python", "machine", "system", "threads", "contract"):
        assert str(known[key]) in text
    rows = {row["name"]: row for row in known["backends"]}
    assert rows.keys() == repdl.backends().keys()
    assert rows["reference"]["details"] == {"language": "Python"} and rows["reference"]["error"] is None
    assert all(value in text for row in rows.values() for value in row["details"].values())


def test_contract__by_op_function_and_family(capsys: pytest.CaptureFixture[str]) -> None:
    for name, family in {"mm": "matmul", "conv2d_grad_weight": "conv2d", "elementwise": "elementwise"}.items():
        assert main(["contract", name]) == 0
        assert capsys.readouterr().out.startswith(f"# {family}\n")
    assert main(["contract", "nosuch"]) == 1
    printed = capsys.readouterr()
    assert not printed.out and "no contract text for 'nosuch'; `repdl ops` lists" in printed.err


@pytest.mark.parametrize("command", ["info", "ops", "contract", "check", "golden"])
def test_help__says_what_a_command_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    usage, description, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: repdl {command}") and len(description.split()) > 10


def test_check__unknown_family(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--family", "nosuch"])
    assert "no family of ops 'nosuch'; `repdl ops` lists the ops" in capsys.readouterr().err
