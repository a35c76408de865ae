"""What happens where a program reaches an op of torch that is not reproducible while `repdl.enable()` holds."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from repdl.audit.called import Called
from repdl.audit.location import Modules, current_node, here
from repdl.audit.remedy import remedy
from repdl.audit.report import Finding
from repdl.audit.reproducibility import Reproducibility, classify, is_ieee
from repdl.errors import UnsupportedError
from repdl.overrides.torchs import TorchKernel, overload

Function = Callable[..., Any]
GO_ON = 'with repdl.enable(on_uncovered="warn") this is a warning, and torch\'s own code runs'
"""The end of a refusal, for where the op matters to nobody."""


def where() -> str:
    """The module and the line that are called now, for the message of an error; "" if it is not known."""
    return here(Modules(), current_node() is not None).in_message.lstrip(" ,")


class _Thread(threading.local):
    muted: Set[str] = frozenset()


_THREAD = _Thread()


@contextmanager
def mute(ops: Set[str]) -> Iterator[None]:
    """Drop warnings about these ops in this thread: the compiler has warned about their calls already."""
    before, _THREAD.muted = _THREAD.muted, ops
    try:
        yield
    finally:
        _THREAD.muted = before


class Refusals:
    """Raises, or warns once for each op and line and lets torch compute it."""

    def __init__(self, on_uncovered: str) -> None:
        self._raises = on_uncovered == "raise"

    def report(self, op: Any, reason: str, instead: str | None = None) -> None:
        """A program reached the op; `instead` names what it can call, or the audit finds it."""
        self.raise_or_warn(op, reason, instead, "repdl.enable", GO_ON if self._raises else "")

    @staticmethod
    def raise_or_warn(op: Any, reason: str, instead: str | None, who: str, go_on: str) -> None:
        """Raise, with how to go on, or warn."""
        if str(op) in _THREAD.muted:
            return
        node = current_node()
        location = here(Modules(), node is not None, Called())
        derivative = node.name() if node is not None else ""
        advice = instead or remedy(op, location.called, derivative, location.source)
        finding = Finding(str(op), Reproducibility.REFUSED, reason, location, derivative, advice)
        message = f"{who}: not reproducible: {finding}"
        if go_on:
            raise UnsupportedError(f"{message}; {go_on}")
        warnings.warn_explicit(message, UserWarning, location.file or "torch", location.line)

    def kernel(self, name: str, device: str, reason: str) -> Function:
        """In place of the kernel of an op that is refused."""
        return _Refused(self, name, reason, None if self._raises else TorchKernel(overload(name), device))

    def conditional(self, op: Any, original: TorchKernel) -> Function:
        """In place of the kernel of an op that is reproducible for some arguments only."""

        reproducible: set[Any] = set()

        def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            result = original.call(keyset, args, kwargs)
            key = _without_tensors(args, kwargs, result)
            if key in reproducible and is_ieee():
                return result
            found = classify(op, args, kwargs, result)
            if not found.reproducibility.ok:
                self.report(op, found.reason)
            elif key is not None and len(reproducible) < _MOST:
                reproducible.add(key)
            return result

        return call


@dataclass(frozen=True, eq=False, slots=True)
class _Refused:
    """The kernel of an op that is refused; torch's own if that is a warning."""

    refusals: Refusals
    name: str
    reason: str
    original: TorchKernel | None

    def __call__(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.refusals.report(overload(self.name), self.reason)
        assert self.original is not None
        return self.original.call(keyset, args, kwargs)


_MOST = 4096
"""Calls of an op that are remembered."""
_PLAIN = {bool, int, float, torch.dtype, torch.layout, torch.device, type(None)}


def _without_tensors(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """The arguments that decide whether a call is reproducible, as a key; None if a tensor is among them."""
    if type(result) is not torch.Tensor:
        return None
    given = [None if value is result else value for value in (*args, *kwargs.values())]
    types = [*map(type, given)]
    if not _PLAIN.issuperset(types):
        return None
    return *given, *types, *kwargs, result.dtype, result.layout, result.device


__all__ = ["GO_ON", "Refusals", "mute", "where"]
