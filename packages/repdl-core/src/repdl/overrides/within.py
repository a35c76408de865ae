"""torch's ops computed by RepDL in one thread, for the extent of a call: what converted models do.

`repdl.enable()` puts kernels where every thread meets them. Here they are at two keys of torch's dispatcher that no
tensor has (`torchs.ABOVE`, `torchs.BELOW`): a thread meets them while it has included the keys, and torch's code
elsewhere pays nothing for them. They are put there once, at the first call, and stay.

A backward pass comes later, with the state of the thread that begins it. Nodes of RepDL's ops call
RepDL's ops by themselves. What else would compute by torch is made to include the keys when it is made: nodes of torch
whose derivative is more than a movement of data, and the program's own code: nodes of `torch.autograd.Function`, hooks
of tensors, and what recomputes a checkpoint.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import _C
from torch.autograd.graph import saved_tensors_hooks

from repdl.audit.op_classes import class_of, plain_name
from repdl.audit.reproducibility import REASONS, unknown
from repdl.audit.watch import watching
from repdl.errors import RepDLError
from repdl.overrides.kernels import Keys, is_apart, of_op, passes
from repdl.overrides.refusal import Refusals, where
from repdl.overrides.switch import LOCK, is_enabled
from repdl.overrides.torchs import ABOVE, BELOW, TorchKernel, is_within, overload
from repdl.settings.garbage import uncollected

Function = Callable[..., Any]
_KEYS = _C._dispatch_key_parse(ABOVE), _C._dispatch_key_parse(BELOW)
_DERIVED = """
_to_copy _unsafe_index as_strided as_strided_scatter block_diag complex copy copysign expand fill gather index
index_copy index_fill index_put index_select masked_fill masked_scatter masked_select nan_to_num nextafter repeat sgn
take unfold values where
"""
"""By torch's name: ops that stay torch's, and whose derivatives are sums, products or conversions."""
_STRICT = "from_torch_module(strict=False) makes this a warning, and torch's own code runs"
_OTHER = "torch's function of that name computes by torch"
_libraries: list[torch.library.Library] = []


@dataclass(frozen=True)
class Owner:
    """Whose calls these are: the name for messages, what happens with what is not reproducible, and whether it is a
    converted model."""

    name: str
    raises: bool
    is_converted: bool = True


class _Thread(threading.local):
    owner: Owner | None = None


_THREAD = _Thread()


def begin(owner: Owner) -> Owner | None:
    """Have this thread compute torch's ops by RepDL; what `end` gets. Not while `repdl.enable()` holds, which does."""
    if not _libraries:
        _put()
    before = _THREAD.owner if is_within() else None
    if not is_enabled():
        _include(owner)
    return before


def end(before: Owner | None) -> None:
    """What held before."""
    _THREAD.owner = before
    for key in _KEYS:
        _C._dispatch_tls_set_dispatch_key_included(key, before is not None)


@contextmanager
def _by(owner: Owner) -> Iterator[None]:
    before = begin(owner)
    try:
        yield
    finally:
        end(before)


def _include(owner: Owner, grads: Any = None) -> None:
    """From here to the end of a node, where autograd restores the state of its thread, or of a call."""
    _THREAD.owner = owner
    for key in _KEYS:
        _C._dispatch_tls_set_dispatch_key_included(key, True)


class _Refusals(Refusals):
    """Raises, or warns and lets torch compute, as the model says whose call it is; an audit is told by its watch."""

    def __init__(self) -> None:
        super().__init__("warn")  # which keeps torch's kernels

    def report(self, op: Any, reason: str, instead: str | None = None) -> None:
        """As of every program."""
        owner = _THREAD.owner
        if owner is None or not is_within() or watching():
            return
        self.raise_or_warn(
            op,
            reason,
            instead,
            f"{owner.name}, converted by from_torch_module" if owner.is_converted else owner.name,
            (_STRICT if owner.is_converted else _OTHER) if owner.raises else "",
        )


def _put() -> None:
    """Put the kernels into torch, for ever."""
    with LOCK, warnings.catch_warnings(), uncollected():
        warnings.simplefilter("ignore")  # that some kernel of torch's is replaced: none is
        if _libraries or is_enabled():
            return
        refusals, derived = _Refusals(), frozenset(_DERIVED.split())
        devices = ("CPU", "CUDA") if torch.cuda.is_available() else ("CPU",)
        libraries = {name: torch.library.Library(name, "IMPL") for name in ("_", "aten")}
        libraries["_"].fallback(torch.library.fallthrough_kernel, ABOVE)
        libraries["_"].fallback(functools.partial(_unknown, refusals), BELOW, with_keyset=True)
        for name in _C._dispatch_get_all_op_names():
            namespace, _, rest = name.partition("::")
            apart = is_apart(name)
            found = {} if apart else _kernels(name, devices, refusals)
            if not found and (apart or passes(name, devices)):
                found = {BELOW: (torch.library.fallthrough_kernel, False)}
            if ABOVE not in found and namespace == "aten" and plain_name(name) in derived:
                found[ABOVE] = _derived(overload(name)), True
            if found and namespace not in libraries:
                libraries[namespace] = torch.library.Library(namespace, "IMPL")
            for key, (kernel, with_keyset) in found.items():
                _impl(libraries[namespace], rest, kernel, key, with_keyset=with_keyset)
        _follow()
        _libraries.extend(libraries.values())


_impl = torch.library.Library.impl


def _kernels(name: str, devices: tuple[str, ...], refusals: Refusals) -> dict[str, tuple[Function, bool]]:
    """Those of the first device for which there are some: they ask for the device themselves."""
    for device in devices:
        found = {k: (kernel, given) for _, k, kernel, given in of_op(name, Keys(device, ABOVE, BELOW), refusals)}
        if ABOVE in found:
            found[ABOVE] = _either(found[ABOVE][0], found[BELOW][0]), False
        if found:
            return found
    return {}


def _either(above: Function, below: Function) -> Function:
    """One of two kernels: the second where torch is below autograd already, inside a kernel of its own."""
    excluded, autograd = _C._dispatch_tls_is_dispatch_key_excluded, _C.DispatchKey.AutogradFunctionality

    def call(*args: Any, **kwargs: Any) -> Any:
        return below(*args, **kwargs) if excluded(autograd) else above(*args, **kwargs)

    return call


def _derived(op: Any) -> Function:
    """torch's kernel of an op, whose derivative RepDL computes."""
    original = TorchKernel(op, ABOVE)

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        return _owned(original.call(keyset, args, kwargs))

    return call


def _owned(result: Any) -> Any:
    """What an op or a function gave, whose nodes of autograd compute by RepDL."""
    owner = _THREAD.owner
    for value in result if isinstance(result, (list, tuple)) else (result,):
        node = value.grad_fn if isinstance(value, torch.Tensor) else None
        if node is not None and owner is not None:
            node.register_prehook(functools.partial(_include, owner))
    return result


def _unknown(refusals: Refusals, keyset: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of the kernel of an op that was not there when kernels were put, or that nothing is known of."""
    name, op_class = op.name(), class_of(plain_name(op))
    if not (is_apart(name) or passes(name, ("CPU",))):
        refusals.report(op, unknown(name) if op_class is None else REASONS[op_class])
    return TorchKernel(op, BELOW).call(keyset, args, kwargs)


def _follow() -> None:
    """What the program's own code leaves for a backward pass computes there as it does where it is left.

    Errors of RepDL's functions say the line of the program.
    """
    RepDLError._ask = lambda: where() if is_within() else ""
    # A class method, of C++ in torch 2.14 and newer.
    apply, register = vars(torch.autograd.Function)["apply"], torch.Tensor.register_hook
    hold = saved_tensors_hooks.__init__

    @functools.wraps(torch.autograd.Function.apply)
    def applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = apply.__get__(None, cls)(*args, **kwargs)
        return _owned(result) if is_within() and not cls.__module__.startswith("repdl.") else result

    @functools.wraps(register)
    def register_hook(self: torch.Tensor, hook: Function) -> Any:
        return register(self, _kept(hook))

    @functools.wraps(hold)
    def init(self: Any, pack_hook: Function, unpack_hook: Function) -> None:
        hold(self, pack_hook, _kept(unpack_hook))

    torch.autograd.Function.apply = classmethod(applied)  # type: ignore[assignment]
    torch.Tensor.register_hook = register_hook  # type: ignore[method-assign]
    saved_tensors_hooks.__init__ = init  # type: ignore[method-assign]


def _kept(function: Function) -> Function:
    """A function that computes where it is called as it does here."""
    owner = _THREAD.owner if is_within() else None
    return function if owner is None else functools.wraps(function)(_by(owner)(function))


__all__ = ["Owner", "begin", "end"]
