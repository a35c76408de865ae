"""Programs that are not edited: `repdl run`, and REPDL_ENABLE in the environment."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from traceback import walk_tb

from repdl.errors import ArgumentError, RepDLError
from repdl.overrides.children import begun_with
from repdl.overrides.switch import ON_UNCOVERED, enable, enabled, start_of_child
from repdl.settings.garbage import keep_modules

VARIABLE = "REPDL_ENABLE"
_SEARCHING = frozenset(
    {"repdl", "runpy", "pkgutil", "zipimport", "importlib", "_frozen_importlib", "_frozen_importlib_external"}
)
"""Modules whose frames there are before the first of a program."""


class NotBegunError(Exception):
    """A program that `repdl run` could not begin. No RepDLError, which would add a line of the program."""


def run_program(
    program: str, arguments: Sequence[str], is_module: bool, contract: str | None, on_uncovered: str
) -> None:
    """Run a script, or a module, as `python` would, with torch's ops reproducible from its first line on.

    Raises:
        NotBegunError: if the program is not there, or torch's ops can't be made reproducible. What it raises itself,
            it raises.
    """
    with enabled_with_children(contract, on_uncovered):
        execute(program, arguments, is_module)


@contextmanager
def enabled_with_children(contract: str | None, on_uncovered: str) -> Iterator[None]:
    """`enabled`, in the processes that are begun in the block too.

    Raises:
        NotBegunError: if torch's ops can't be made reproducible.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(enabled(contract, on_uncovered))
        except RepDLError as error:
            raise NotBegunError(str(error)) from error
        stack.enter_context(begun_with(start_of_child, {VARIABLE: on_uncovered}))
        yield


def execute(program: str, arguments: Sequence[str], is_module: bool) -> None:
    """Run a script, or a module, in this process, as `python` would.

    Raises:
        NotBegunError: if the program is not there. What it raises itself, it raises.
    """
    sys.argv = [program, *arguments]
    keep_modules()
    try:
        if is_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
            runpy.run_path(program, run_name="__main__")
    except (ImportError, OSError) as error:
        if _has_begun(error):
            raise
        raise NotBegunError(f"can't run {program}: {getattr(error, 'strerror', None) or error}") from error


def _has_begun(error: BaseException) -> bool:
    """Whether a line of the program was reached, and not only those of Python that look for it."""
    modules = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__))
    return any(module.partition(".")[0] not in _SEARCHING for module in modules)


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
    keep_modules()


def start() -> None:
    """The same for a process that is starting, which ends with status 2 if it can't be done.

    No exception: while Python starts, it shows a traceback of its own startup for one.
    """
    try:
        enable_if_asked()
    except Exception as error:
        print(f"repdl: {error if isinstance(error, RepDLError) else repr(error)}", file=sys.stderr, flush=True)
        os._exit(2)


__all__ = ["NotBegunError", "enable_if_asked", "enabled_with_children", "execute", "run_program", "start"]
