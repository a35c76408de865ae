"""Methods of torch.Tensor whose calls without gradients are replayed before torch sees them.

A call of torch goes through its argument parser, its dispatcher and a kernel in Python, to a recording that runs in
half the time of these. So while `repdl.enable()` holds, the methods below are found in `torch.Tensor` as an object in C
that looks for a recording first (`repdl/python/call.hpp`). It replays where a recording is there, no gradient is
recorded and nothing of torch is at work; everything else, errors too, is the method's own. Only a call
`tensor.method(...)` or an operator meets it: who takes the method from the class or a tensor gets torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from repdl.callcache import (
    Outcome,
    Plan,
    Result,
    Trace,
    VariableScalars,
    allow_shortcuts,
    find_variable_scalars,
    flat,
    index_of,
    outcome,
    plan_call,
    plan_in_place,
    shortcut,
    tensors_of,
    trace_call,
    unique,
)
from repdl.dynamo import set_dynamo_skip
from repdl.generators.lock import ForkLock
from repdl.overrides.torchs import UNREACHED

_WITH_NUMBERS = {
    "add": "add add_ __add__ __radd__ __iadd__",
    "sub": "sub sub_ __sub__ __isub__",
    "mul": "mul mul_ __mul__ __rmul__ __imul__",
    "div": "div div_ __truediv__",
    "addcdiv": "addcdiv addcdiv_",
    "addcmul": "addcmul addcmul_",
    "lerp": "lerp lerp_",
}
"""By the op that they are. Scalars may vary, as they may for our function of the op."""
_METHODS = _WITH_NUMBERS | {
    **{name: f"{name} {name}_" for name in ("abs", "clamp", "exp", "log", "reciprocal", "relu", "rsqrt")},
    **{name: f"{name} {name}_" for name in ("sigmoid", "sqrt", "square", "tanh")},
    **{name: name for name in ("amax", "bmm", "maximum", "mean", "minimum", "mm", "pow", "softmax", "sum")},
    "matmul": "matmul __matmul__",
}
_made: dict[str, Any] = {}
"""Shortcuts by the name of the method, for the life of the process: what they have recorded stays."""
_put: set[str] = set()
"""Those that are in torch.Tensor, where they are not hidden."""
_hiding: list[None] = []
"""An element for each block that hides them."""
_lock = ForkLock()


class Shortcuts:
    """Those that are in torch.Tensor. Made before RepDL's kernels are put into torch."""

    def __init__(self) -> None:
        others = (key.split("/") for key in torch.library._impls if key.startswith("aten/"))
        self._changed = {_op_of(name) for _, name, key in others if _is_reached(key)}

    def put_in(self) -> None:
        """All, but of ops into which somebody has put a kernel, which may come before ours."""
        for op, names in _METHODS.items():
            if op not in self._changed:
                for name in names.split():
                    self._make(name, op in _WITH_NUMBERS)
        with _lock:
            _show()
        allow_shortcuts(True)

    def _make(self, name: str, variable_scalars: bool) -> None:
        method = vars(torch._C.TensorBase).get(name)
        if method is None or name in vars(torch.Tensor):  # somebody's own
            return
        if name not in _made:
            _made[name] = shortcut(method, _record, variable_scalars)
        if _made[name] is not None:
            _put.add(name)

    def take_out(self) -> None:
        """All of them."""
        allow_shortcuts(False)
        _take_out(_put)

    def take_out_of(self, op: str, key: str) -> None:
        """Those of an op of torch's dispatcher, for which somebody has put a kernel at a key."""
        namespace, _, name = op.partition("::")
        if namespace == "aten" and _is_reached(key):
            _take_out(_METHODS.get(_op_of(name), "").split())


def _is_reached(key: str) -> bool:
    """Whether calls of tensors come to a key of the dispatcher here: torch 2.14 has kernels in Python for GPUs."""
    return key not in UNREACHED and ("CUDA" not in key or torch.cuda.is_available())


@contextmanager
def hidden() -> Iterator[None]:
    """None of them is in torch.Tensor, in all threads: Dynamo looks at what that has."""
    with _lock:
        _hiding.append(None)
        _hide(_put)
    try:
        yield
    finally:
        with _lock:
            _hiding.pop()
            _show()


def _show() -> None:
    for name in () if _hiding else _put - vars(torch.Tensor).keys():  # what is there is somebody's own
        setattr(torch.Tensor, name, _made[name])


def _hide(names: Iterable[str]) -> None:
    for name in names:
        if vars(torch.Tensor).get(name) is _made[name]:  # else somebody has put theirs there
            delattr(torch.Tensor, name)


def _take_out(names: Iterable[str]) -> None:
    with _lock:
        there = _put.intersection(names)
        _put.difference_update(there)
        _hide(there)


def _op_of(name: str) -> str:
    """`mul` of `mul_.Tensor`."""
    return name.partition(".")[0].rstrip("_")


def _record(
    method: Callable[..., Any], args: Sequence[Any], kwargs: Any, differentiates: bool, variable_scalars: bool
) -> Outcome:
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    versions = [-1 if t.is_inference() else t._version for t in tensors]
    result, trace = trace_call(method, args, kwargs)
    written = [write.target for write in trace.writes]
    if not _is_all_seen(trace, [*args, *kwargs.values()]):
        return Outcome(result)  # the value of a tensor is in the recording
    if not trace.kernel_calls or not any(t.is_floating_point() for t in tensors):
        return Outcome(result)  # torch's own kernel, or a dtype that follows from a setting
    if any(v >= 0 and not _is_seen(t, t._version - v, written) for t, v in zip(tensors, versions)):
        return Outcome(result)  # something else wrote there too
    index = index_of(result, tensors)
    if (index is not None) is not bool(written):
        return Outcome(result)

    def plan() -> Plan:
        scalars = VariableScalars()
        if variable_scalars:
            copies = {id(target): target.clone() for target in written}  # for the call with other scalars to change
            scalars = find_variable_scalars(method, [copies.get(id(a), a) for a in args], kwargs, trace)
        if index is None:
            return plan_call(trace, tensors, result, False, scalars)
        return plan_in_place(trace, tensors, trace.writes, Result("argument", index), scalars)

    return outcome(result, plan)


def _is_all_seen(trace: Trace, values: Sequence[Any]) -> bool:
    """Whether kernels got all tensors: torch's parser may read a tensor of one element as a scalar (`alpha`)."""
    read = [value for value in values if isinstance(value, torch.Tensor) and value.numel() == 1]
    used = flat([a for call in trace.kernel_calls for a in call.arguments])
    if len(flat(values)) > len(tensors_of(values)) or len(unique(read)) < len(read):
        return False
    return all(index_of(tensor, used) is not None for tensor in read)


def _is_seen(tensor: torch.Tensor, changes: int, written: Sequence[torch.Tensor]) -> bool:
    """Whether a tensor was changed as often as what was written says, once each; views share torch's counts."""
    if index_of(tensor, written) is not None:
        return changes == 1
    storage = tensor.untyped_storage()._cdata
    return changes == 0 or (changes == 1 and any(w.untyped_storage()._cdata == storage for w in written))


set_dynamo_skip([_record.__code__])

__all__ = ["Shortcuts", "hidden"]
