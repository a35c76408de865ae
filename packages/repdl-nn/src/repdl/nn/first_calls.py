"""The check of a converted model's first calls: which ops of torch its own code reaches.

`from_torch_module` examines modules, not what their `forward` computes by itself. So the first call of each kind
(`call_kind.py`: training or not, gradients enabled or not, which arguments) is watched (`repdl.audit`), and so is the
first backward pass from its results. What stays afterwards is a hook of the model that looks whether the kind is known.
"""

from __future__ import annotations

import itertools
import sys
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch.overrides import _get_current_function_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode

from repdl.audit import Report, Row, Watch, watching
from repdl.audit.place import sequence_number
from repdl.compiling import is_traced
from repdl.dynamo import constant_result
from repdl.errors import UnsupportedError
from repdl.nn.backward_watch import BackwardWatch
from repdl.nn.call_kind import Kind, call_kind
from repdl.nn.outside import Outside
from repdl.nn.tensor_hooks import CallHooks

_MOST = 64
"""So many kinds of calls are looked at; a model that is called with ever new strings has more."""
_CALL_IMPL = torch.nn.Module._call_impl.__code__


class _Call:
    """A first call that is under way: Python's frame of it, which no other call has."""

    def __init__(self, check: FirstCalls, model: torch.nn.Module, frame: FrameType, kind: Kind) -> None:
        self.check, self.watch, self.kind = check, Watch(model), kind
        name = type(model).__name__
        self.hooks = CallHooks(lambda report: check._complain(name, report, kind, "backward"))
        self.frame: FrameType | None = frame
        self.outer = frame.f_back
        self.first = sequence_number()
        with check._lock:
            check._running += 1
        self.hooks.__enter__()
        self.watch.__enter__()

    def is_over(self) -> bool:
        """Whether its frame is left, as after an interrupt, which calls no hooks."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self.outer:
            frame = frame.f_back
        return frame is None

    def leave(self) -> None:
        """Watch no more."""
        self.frame = self.outer = None  # which have the call among their variables
        if _get_current_dispatch_mode() is self.watch:
            self.watch.__exit__(None, None, None)
        if _get_current_function_mode() is self.hooks:
            self.hooks.__exit__(None, None, None)
        with self.check._lock:
            self.check._running -= 1


class _Thread(threading.local):
    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.awaited: dict[str, Kind] = {}  # number of a check -> the kind of a call whose backward pass is awaited


_THREAD = _Thread()
_numbers = itertools.count()
_known: weakref.WeakValueDictionary[str, FirstCalls] = weakref.WeakValueDictionary()


class FirstCalls:
    """The hooks of a converted model, and the kinds of calls that they have seen.

    One hook stays, before each call; the one after it is there while a kind is not finished. A copy of a model
    and one that is unpickled begin anew: they may be called on another machine, by another torch.

    Args:
        strict: whether what is not reproducible raises; else it is a warning.
        code: whether the model has code of its own; if not, hooks may come, and losses.
    """

    def __init__(self, strict: bool, code: bool = True) -> None:
        self.strict, self.code = strict, code
        self.number = str(next(_numbers))
        self._watches: dict[Kind, Watch] = {}  # of the kinds whose forward pass was seen
        self._nodes: dict[Kind, int] = {}  # and how many nodes of autograd it made
        self._partly: set[Kind] = set()  # and a backward pass to some leaves (torch.autograd.grad)
        self._finished: set[Kind] = set()  # and one to all leaves, where there is one
        self._fuses = False  # see `Watch.fuses`
        self._running = 0
        self._lock = threading.Lock()  # threads call a model, or replicas of it, at the same time
        _known[self.number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return FirstCalls, (self.strict, self.code)

    def attach(self, model: torch.nn.Module) -> None:
        """Watch the first calls of `model`, and those of its parts as calls of it only."""
        for module in model.modules():
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                for key in [k for k, hook in hooks.items() if isinstance(getattr(hook, "__self__", None), FirstCalls)]:
                    del hooks[key]
        model.register_forward_pre_hook(self.before, prepend=True, with_kwargs=True)

    def before(self, model: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Before a call of the model."""
        if torch.compiler.is_compiling():
            _compiled(self.number, model.training, torch.is_grad_enabled())
            return
        kind = call_kind(model.training, args, kwargs)
        if kind in self._finished:
            return
        if kind in self._watches:
            _THREAD.awaited[self.number] = kind
            return
        if len(self._watches) >= _MOST:
            return
        calls = _THREAD.calls
        while calls and calls[-1].is_over():
            calls.pop().leave()
        if watching():
            return  # as part of what is watched
        calls.append(_Call(self, model, sys._getframe(1), kind))
        with self._lock:
            if self.after not in model._forward_hooks.values():
                model.register_forward_hook(self.after, always_call=True, with_kwargs=True)

    def after(self, model: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        """After a call of the model, or an exception in it."""
        if torch.compiler.is_compiling():
            return
        calls, frame = _THREAD.calls, sys._getframe(1)
        call = calls[-1] if calls else None
        raised = frame.f_code is _CALL_IMPL  # hooks are called from there where `forward` has raised
        kind, results = _THREAD.awaited.pop(self.number, None), []
        if call is not None and call.check is self and frame is (call.outer if raised else call.frame):
            calls.pop().leave()
            kind, results = call.kind, call.watch.results()
            self._fuses |= call.watch.fuses
            if not raised:
                self._complain(type(model).__name__, call.watch.report(), kind, "forward")
                self._nodes[kind], self._watches[kind] = sequence_number() - call.first, call.watch
        if raised or kind not in self._watches:
            return
        if kind[1] and kind not in self._finished:
            if not watching():
                self._await_backward(type(model).__name__, kind, (args, kwargs), (result, results))
        else:
            self._finished.add(kind)
            self._tidy(model)

    def _await_backward(self, name: str, kind: Kind, arguments: Any, results: Any) -> None:
        # What waits holds nothing of the call, neither tensors nor frames: they would hold what waits.
        first = sequence_number() - self._nodes[kind]

        def begin(complete: bool) -> Watch | None:
            known = kind in self._finished or (not complete and kind in self._partly)
            return None if known else self._watches[kind].of_later_call(first)

        def end(complete: bool, report: Report) -> None:
            self._complain(name, report, kind, "backward")
            (self._finished if complete else self._partly).add(kind)

        def came(found: Outside) -> None:
            warnings.warn_explicit(_of_the_loss(name, found), UserWarning, found.file, found.line)

        BackwardWatch(begin, end, came).attach(_tensors(results), _tensors(arguments))

    def _tidy(self, model: torch.nn.Module) -> None:
        """Take `after` out of the hooks while there is nothing to be seen."""
        with self._lock:
            if not self._running and self._watches.keys() <= self._finished:
                for key in [k for k, hook in model._forward_hooks.items() if hook == self.after]:
                    del model._forward_hooks[key]
                    model._forward_hooks_always_called.pop(key, None)

    def _complain(self, name: str, report: Report, kind: Kind, part: str) -> None:
        """Raise or warn if the report has something that is not reproducible."""
        if report.ok:
            return
        message = _message(
            name, report, f"{part} pass of its first call of this kind in {'training' if kind[0] else 'eval'} mode"
        )
        if self.strict:
            raise UnsupportedError(message)
        place = report.refused[0].place
        warnings.warn_explicit(message, UserWarning, place.file or name, place.line)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in arguments or results of a model."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, Mapping):
        yield from _tensors(tuple(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _tensors([getattr(value, field.name, None) for field in fields(value)])


def _message(name: str, report: Report, what: str) -> str:
    rows = _merged(report.refused)
    count = len(rows)
    head = f"{name}, converted by from_torch_module: in the {what} "
    head += f"{count} {'ops are' if count > 1 else 'op is'} not reproducible:"
    remedy = (
        "Only registered ops, data movement, exact operations and single roundings give the same bits on every "
        "machine: call functions of repdl.ops (or repdl.nn.functional) there. Without an edit, repdl.enable() computes "
        "torch's own functions by RepDL's, in the whole program. repdl.audit(model, ...) shows all ops of a call; "
        "from_torch_module(strict=False) makes this a warning."
    )
    return "\n".join([head, *(f"  {row}" for row in rows), remedy])


def _merged(rows: Iterable[Row]) -> list[Row]:
    """One row for each op of a line, in whichever of a model's blocks it is."""
    found: dict[Row, list[Row]] = {}
    for row in rows:
        found.setdefault(replace(row, place=replace(row.place, module=""), count=0), []).append(row)
    merged = []
    for alike in found.values():
        first, others = alike[0], len(alike) - 1
        also = f" and {others} other module{'s' if others > 1 else ''}" if others else ""
        module = (first.module or "the model") + also if also else first.module
        place = replace(first.place, module=module)
        merged.append(replace(first, place=place, count=sum(row.count for row in alike)))
    return merged


def _of_the_loss(name: str, found: Outside) -> str:
    one = len(found.names) == 1
    return (
        f"the loss computed of the results of {name}, converted by from_torch_module, is not reproducible, nor is "
        f"what is trained with it: torch's {', '.join(found.names)} {'has' if one else 'have'} other bits on other "
        "machines. Call functions of repdl.ops (or repdl.nn.functional) there, or layers of repdl.nn; repdl.audit of a "
        "function that does a whole step of training shows all ops, with their lines."
    )


def has_code(model: torch.nn.Module) -> bool:
    """Whether a converted model has code that is neither torch's containers' nor RepDL's: a `forward` or a hook."""
    for module in model.modules():
        if module._forward_pre_hooks or module._forward_hooks or module._backward_hooks or module._backward_pre_hooks:
            return True
        owner = next(c for c in type(module).__mro__ if "forward" in vars(c))
        if owner.__module__.partition(".")[0] not in ("torch", "repdl"):
            return True
    return False


@constant_result
def _compiled(number: str, training: bool, gradients: bool) -> None:
    """While torch.compile traces a call. What it makes of the model is not watched, so its mode should be known."""
    check = _known.get(number)
    if check is None or not check.code or is_traced():  # which refuses in the graph itself
        return
    if (training, gradients) not in {kind[:2] for kind in check._watches}:
        mode = "training" if training else "eval"
        warnings.warn(
            f"a model converted by from_torch_module is compiled before its first call in {mode} mode, which checks "
            "what its own code computes: call it once, forward and backward, before torch.compile, or see repdl.audit",
            stacklevel=2,
        )
    from torch._inductor import config  # which takes a second to import

    if check._fuses and not getattr(config, "emulate_precision_casts", False):
        warnings.warn(
            "a model converted by from_torch_module adds or multiplies halves, or on a GPU, by torch's own ops, which "
            "torch.compile fuses: it leaves out roundings, so that the bits are others than without. Pass "
            'backend="repdl", call functions of repdl.ops there (add, mul, ...), which it leaves as they are, or, for '
            "halves on a CPU, set torch._inductor.config.emulate_precision_casts = True",
            stacklevel=2,
        )


__all__ = ["FirstCalls", "has_code"]
