"""Every op of torch that a thread reaches, noted with its location and reproducibility."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repdl.audit.called import Called
from repdl.audit.location import Modules, SourceLocation, current_node, here, sequence_number
from repdl.audit.op_classes import class_of, plain_name
from repdl.audit.remedy import remedy
from repdl.audit.report import Finding, Report
from repdl.audit.reproducibility import COMPLEX, classify, is_registered


class _Thread(threading.local):
    depth = 0


_THREAD = _Thread()


def watching() -> bool:
    """Whether this thread's ops are watched already."""
    return _THREAD.depth > 0


class Watch(TorchDispatchMode):
    """A mode of torch that notes the ops below autograd, those of backward passes that begin in it included.

    It changes no result. What a registered op computes is its own affair, and not seen.

    Args:
        root: the module whose names the paths of modules begin at; None: the outermost that is called.
    """

    supports_higher_order_operators = True

    def __init__(self, root: torch.nn.Module | None = None) -> None:
        super().__init__()
        self._first = sequence_number()
        self._modules = Modules(root)
        self._findings: dict[Finding, int] = {}
        self._made: dict[int, SourceLocation] = {}  # number of a node of autograd, from the first -> where it was made
        self._lock = threading.Lock()  # autograd's threads come here too

    def __enter__(self) -> Watch:
        _THREAD.depth += 1
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        _THREAD.depth -= 1
        super().__exit__(*error)

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._is_composed(op):  # under inference_mode torch decomposes below the modes
            with self:
                result = op.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = op(*args, **kwargs)
        self._note(op, args, kwargs, result)
        return result

    @staticmethod
    def _is_composed(op: Any) -> bool:
        if not isinstance(op, torch._ops.OpOverload) or is_registered(op) or class_of(plain_name(op)) is not None:
            return False
        others = op.namespace != "aten"  # somebody may have put a kernel beside the function that composes it
        return not (others and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU"))

    def _note(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        found = classify(op, args, kwargs, result)
        node = current_node()
        location, derivative = here(self._modules, node is not None, Called()), ""
        if node is not None:
            derivative = node.name()
            location = location.or_of(self._where_made(node._sequence_nr() - self._first))
        if node is None or torch.is_grad_enabled():
            self._made.setdefault(sequence_number() - 1 - self._first, location)
        helpless = found.reproducibility.ok or found.reason is COMPLEX
        advice = None if helpless else remedy(op, location.called, derivative, location.source)
        finding = Finding(str(op), found.reproducibility, found.reason, location, derivative, advice)
        with self._lock:
            self._findings[finding] = self._findings.get(finding, 0) + 1

    def _where_made(self, number: int) -> SourceLocation:
        """The location of the forward op that made a node of autograd, as far as it was seen."""
        if number not in self._made and number >= 0:  # torch.func numbers nodes of its own before the op
            number = min((other for other in self._made if other > number), default=-1)
        return self._made.get(number, SourceLocation())

    def report(self) -> Report:
        """What was noted."""
        with self._lock:
            return Report(tuple(finding.counted(count) for finding, count in self._findings.items()))


__all__ = ["Watch", "watching"]
