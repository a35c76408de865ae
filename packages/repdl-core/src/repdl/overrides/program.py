"""Programs that are not edited: `repdl run`, and REPDL_ENABLE in the environment."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from repdl.errors import ArgumentError
from repdl.overrides.children import begun_with
from repdl.overrides.switch import ON_UNCOVERED, enable, enabled, start_of_child

VARIABLE = "REPDL_ENABLE"


def run_program(
    program: str, arguments: Sequence[str], is_module: bool, contract: str | None, on_uncovered: str
) -> None:
    """Run a script, or a module, as `python` would, with torch's ops reproducible from its first line on."""
    sys.argv = [program, *arguments]
    with enabled(contract, on_uncovered), begun_with(start_of_child, {VARIABLE: on_uncovered}):
        if is_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
            runpy.run_path(program, run_name="__main__")


def enable_if_asked() -> None:
    """`enable()` where the environment has REPDL_ENABLE, as 1 or raise, or as warn.

    The file repdl_enable.pth calls this in every process that is started.
    """
    value = os.environ.get(VARIABLE, "")
    if value in ("", "0"):
        return
    wanted = "raise" if value == "1" else value
    if wanted not in ON_UNCOVERED:
        raise ArgumentError(f"{VARIABLE} is {value!r}, expected 0, 1, raise or warn")
    enable(on_uncovered=wanted)


def start() -> None:
    """The same for a process that is starting, which ends if it can't be done."""
    try:
        enable_if_asked()
    except Exception as error:
        raise SystemExit(f"{VARIABLE}: {type(error).__name__}: {error}") from error


__all__ = ["enable_if_asked", "run_program", "start"]
