"""Where in the user's program an op is called: the module, and the line of its source.

Both are read off the frames of Python: the innermost call of a module, and the innermost line that is neither torch's
nor RepDL's, nor of a package that brings ops or backends. In a backward pass there are none, as autograd calls the ops;
there the line is that of the forward op whose derivative it is, found by the number that autograd gave to both.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from repdl.audit.called import Called
from repdl.registry.plugins import packages

_DECORATORS = frozenset({"contextlib", "typing_extensions", "warnings", "_py_warnings"})
"""Of Python: their frames stand between a function of torch that is decorated and its caller."""
_LIBRARIES = frozenset({"torch", "functorch", "repdl", "repdl_cpu", "repdl_cuda"}) | _DECORATORS
_GENERATED = str(Path(torch.__file__).parent)
"""Where code of torch says that it is, which has no module."""
_CALL = torch.nn.Module._call_impl.__code__
_ENGINE = frozenset({"_engine_run_backward", "run_backward"})
_KNOWN: dict[int, tuple[CodeType, bool]] = {}
"""Code -> itself, so that no other gets its number, and whether a library has it. To hash code takes a while."""
_MOST = 1 << 14
_COMPILED = "_orig_mod"
"""The name of a module in what `torch.compile` makes of it, which no path shows."""


@dataclass(frozen=True)
class SourceLocation:
    """A module, by the path of its name; a line; and the function of torch that the line calls (`audit/called.py`)."""

    module: str = ""
    file: str = ""
    line: int = 0
    called: str = ""

    @property
    def source(self) -> str:
        """The text of the line."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def in_message(self) -> str:
        """The module, the line and its text, as messages show them."""
        module = f" in {self.module}" if self.module else ""
        line = f", {self}" if self.file else ""
        return f"{module}{line}{f' `{self.source}`' if self.source else ''}"

    def or_of(self, other: SourceLocation) -> SourceLocation:
        """This location, completed from another one."""
        found = self if self.file else other
        return SourceLocation(self.module or other.module, found.file, found.line, found.called)

    def __str__(self) -> str:
        if not self.file:
            return ""
        near = os.path.relpath(self.file) if os.path.isabs(self.file) else self.file
        return f"{self.file if near.startswith('..') else near}:{self.line}"


class Modules:
    """The paths of modules, below a root or the outermost one that is called."""

    def __init__(self, root: torch.nn.Module | None = None) -> None:
        self._root = None if root is None else _paths(root)  # not the module: graphs of autograd may hold this
        self._outermost: dict[torch.nn.Module, dict[int, str]] = {}

    def path(self, calls: list[torch.nn.Module]) -> str:
        """Of the innermost of the modules in `calls`, which are ordered from the inside."""
        if not calls:
            return ""
        known = self._root
        if known is None:
            outermost = calls[-1]
            if outermost not in self._outermost:
                self._outermost[outermost] = _paths(outermost)
            known = self._outermost[outermost]
        for module in calls:
            if id(module) in known:
                inside = type(calls[0]).__name__ if module is not calls[0] else ""
                return ".".join(filter(None, (known[id(module)], inside)))
        return type(calls[0]).__name__


def _paths(root: torch.nn.Module) -> dict[int, str]:
    return {id(module): _shown(name) for name, module in root.named_modules()}


def _shown(path: str) -> str:
    return ".".join(name for name in path.split(".") if name != _COMPILED)


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether a module is what `torch.compile` makes of one."""
    return _COMPILED in module._modules


def here(modules: Modules, in_backward: bool, called: Called | None = None) -> SourceLocation:
    """The location of the op that is called now, without a file if autograd's engine calls it.

    Args:
        called: finds the function of torch that the line calls; None: it is not looked for.
    """
    frame: FrameType | None = sys._getframe(1)
    file, line, calls = "", 0, []
    while frame is not None:
        code = frame.f_code
        if in_backward and is_engine(frame):
            break
        if code is _CALL and not is_compiled(frame.f_locals["self"]):
            calls.append(frame.f_locals["self"])
        if not file:
            if not is_library(frame):
                file, line = code.co_filename, frame.f_lineno
                if called is not None:
                    called.programs(frame)
            elif called is not None:
                called.torchs(frame, str(frame.f_globals.get("__name__", "")))
        frame = frame.f_back
    return SourceLocation(modules.path(calls), file, line, "" if called is None else called.name)


def is_engine(frame: FrameType) -> bool:
    """Whether a frame is that in which torch calls autograd's engine, with the roots of a pass as `t_outputs`."""
    return frame.f_code.co_name in _ENGINE and _library(frame) == "torch"


def is_library(frame: FrameType) -> bool:
    """Whether a frame is of torch, RepDL or a package that brings ops or backends, and not of the user's program."""
    code = frame.f_code
    known = _KNOWN.get(id(code))
    if known is None:
        library = _library(frame)
        found = library in _LIBRARIES or library in packages() or code.co_filename.startswith(_GENERATED)
        known = _KNOWN[id(code)] = code, found
        if len(_KNOWN) > _MOST:
            _KNOWN.clear()
    return known[1]


def _library(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def sequence_number() -> int:
    """The number that autograd gives to the next node of this thread."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def current_node() -> Any:
    """The node that autograd computes in this thread, or None."""
    return torch._C._current_autograd_node()


__all__ = [
    "Modules",
    "SourceLocation",
    "current_node",
    "here",
    "is_compiled",
    "is_engine",
    "is_library",
    "sequence_number",
]
