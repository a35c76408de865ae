"""`repdl.enable`: torch's own ops give the bits of RepDL's, or raise.

Kernels for the ops of torch are put at two keys of its dispatcher, autograd's and the device's, in all threads. What
moves data or is exact stays torch's, with the derivatives that torch gives to it, which are ops again. An op that
torch composes of others needs nothing, unless RepDL has a function of its own for it.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import _C

from repdl.audit.judge import CONDITIONS, REASONS
from repdl.audit.kinds import Kind, kind_of, plain_name
from repdl.contract import Contract, get_contract, set_contract
from repdl.errors import ArgumentError, DTypeError, UnsupportedError
from repdl.overrides.binding import bound, for_each, in_place, into
from repdl.overrides.conversions import SOURCES, defined
from repdl.overrides.draws import DRAWS
from repdl.overrides.functions import FUNCTIONS, Row
from repdl.overrides.refusal import Refusals
from repdl.overrides.scaling import unscale, update_scale
from repdl.overrides.torchs import TorchKernel, overload
from repdl.registry import OPS

Function = Callable[..., Any]
_LISTS = "_foreach_"
ON_UNCOVERED = "raise", "warn"
_NOT_COMPUTING = frozenset({"repdl", "prim", "prims", "profiler", "debugprims", "rngprims"})
"""Namespaces of ops that compute nothing, or by ops of `aten`."""
_LAYOUTS = "SparseCPU", "SparseCsrCPU", "QuantizedCPU", "NestedTensorCPU", "MkldnnCPU"
_COMPOSED = frozenset({"rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "allclose"})
"""Ops that torch composes of others without saying so to its dispatcher: numbers are drawn into an empty tensor."""
_WHOLE: dict[str, Function] = {
    **{raw: function for raw, function in DRAWS.items() if raw.endswith("_")},
    "_amp_foreach_non_finite_check_and_unscale_": unscale,
    "_amp_update_scale_": update_scale,
}
"""By torch's own name of an op that changes its arguments: what does that itself."""
_UNKNOWN = "not in the table of torch's ops (docs/torch-ops.md): nothing is known of it"
_lock = threading.RLock()


class _Session:
    """The kernels that are put into torch while its settings hold."""

    def __init__(self, contract: Contract | str | None, on_uncovered: str) -> None:
        self.settings = contract, on_uncovered
        self._contract, self._fast_path = get_contract(), torch.backends.mha.get_fastpath_enabled()
        self._stance: Any = None
        self._libraries: dict[str, torch.library.Library] = {}
        try:
            if contract is not None:
                set_contract(contract)
            torch.backends.mha.set_fastpath_enabled(False)
            # Code that torch.compile makes calls no kernels of the dispatcher.
            self._stance = torch.compiler.set_stance("force_eager")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that torch's kernels are replaced
                for device in ("CPU", "CUDA") if torch.cuda.is_available() else ("CPU",):
                    for name, key, kernel, with_keyset in _kernels(device, on_uncovered):
                        namespace, _, rest = name.partition("::")
                        self._library(namespace).impl(rest, kernel, key, with_keyset=with_keyset)
        except BaseException:
            self.end()
            raise

    def _library(self, namespace: str) -> torch.library.Library:
        if namespace not in self._libraries:
            self._libraries[namespace] = torch.library.Library(namespace, "IMPL")
        return self._libraries[namespace]

    def end(self) -> None:
        """Torch's kernels are torch's again."""
        while self._libraries:
            self._libraries.popitem()[1]._destroy()
        set_contract(self._contract)
        torch.backends.mha.set_fastpath_enabled(self._fast_path)
        if self._stance is not None:
            self._stance.__exit__(None, None, None)


Kernel = tuple[str, str, Function, bool]
"""The name of an op, a key of the dispatcher, what is put there, and whether it asks for the keys of the call."""
_found: dict[tuple[str, str], tuple[list[str], list[Kernel]]] = {}


def _kernels(device: str, on_uncovered: str) -> list[Kernel]:
    """What is put into torch, found out once for the ops that there are."""
    names = _C._dispatch_get_all_op_names()
    known, kernels = _found.get((device, on_uncovered), ([], []))
    if known != names:
        refusals, registered = Refusals(on_uncovered), {op.overload.name() for op in OPS.values()}
        kernels = []
        for name in names:
            if name not in registered:
                kernels += [*_of(name, device, refusals), *_of_layouts(name, refusals)]
        _found[device, on_uncovered] = names, kernels
    return kernels


def _of(name: str, device: str, refusals: Refusals) -> Iterator[Kernel]:
    """The kernels of an op at the keys of a device, while all of them are torch's."""
    namespace, _, rest = name.partition("::")
    if namespace in _NOT_COMPUTING or rest.startswith("sym_"):
        return
    if not _C._dispatch_has_computed_kernel_for_dispatch_key(name, device):
        return
    plain = plain_name(name)
    kind = kind_of(plain)
    function = _function(name, plain) if namespace == "aten" else None
    if function is not None:
        above, below = _of_integers(name, device, function)
        yield name, f"Autograd{device}", _chosen(function, above), False
        yield name, device, _without_gradients(_chosen(function, below)), False
    elif _is_composed(name) or plain in _COMPOSED:
        return
    elif plain in SOURCES:
        op = overload(name)
        yield name, device, defined(op, TorchKernel(op, device)), True
    elif plain in CONDITIONS or plain == "sgn" or kind is Kind.INTEGER:
        op = overload(name)
        yield name, device, refusals.judged(op, TorchKernel(op, device)), True
    elif kind not in (Kind.MOVES, Kind.EXACT):
        yield name, device, refusals.kernel(name, device, _UNKNOWN if kind is None else REASONS[kind]), True


def _of_layouts(name: str, refusals: Refusals) -> Iterator[Kernel]:
    """Refusals of an op at the keys of tensors that are not plain memory."""
    plain = plain_name(name)
    if plain and kind_of(plain) not in (Kind.MOVES, Kind.EXACT):
        for key in _LAYOUTS:
            if _C._dispatch_has_kernel_for_dispatch_key(name, key):
                yield name, key, refusals.kernel(name, key, f"computes with tensors of another layout ({key})"), True


def _is_composed(name: str) -> bool:
    return bool(_C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


@functools.cache
def _rows() -> Mapping[str, Row]:
    """Those of core, and of entry points `repdl.overrides`, whose names may be those of an op in place."""
    found = dict(FUNCTIONS)
    for point in entry_points(group="repdl.overrides"):
        found.update(point.load())
    return found


def _function(name: str, plain: str) -> Function | None:
    """What computes an op of `aten`, with the arguments of its schema, or None."""
    raw = name.partition("::")[2].partition(".")[0]
    if plain.startswith(_LISTS):
        return _of_lists(name, raw.removeprefix(_LISTS), plain.removeprefix(_LISTS))
    if raw.endswith("_") and raw in _rows():
        return _rows()[raw].function  # which changes its arguments itself
    row = _rows().get(plain)
    if row is None and plain not in DRAWS and raw not in _WHOLE:
        return None
    schema = overload(name)._schema
    outputs = [a.name for a in schema.arguments if a.is_out]
    if raw in _WHOLE:
        return None if outputs else _WHOLE[raw]
    function = DRAWS.get(plain) if row is None else bound(plain, row, schema)
    if function is None:
        return None
    return into(function, outputs) if outputs else in_place(function) if raw != plain else function


def _of_lists(name: str, raw: str, plain: str) -> Function | None:
    if plain not in _rows() and plain not in SOURCES and kind_of(plain) not in (Kind.MOVES, Kind.EXACT):
        return None
    schema = overload(name)._schema
    op = getattr(torch.ops.aten, raw, None)
    if op is None and raw != plain and hasattr(torch.ops.aten, plain):
        op = in_place(getattr(torch.ops.aten, plain))  # as there is no maximum_
    if op is None or any(a.is_out for a in schema.arguments):
        return None
    lists = [isinstance(a.type, torch.ListType) for a in schema.arguments if not a.kwarg_only]
    keyword = "value" if plain in ("addcmul", "addcdiv") else None
    return for_each(op, lists, keyword, bool(schema.returns))


def _of_integers(name: str, device: str, function: Function) -> tuple[Function | None, Function | None]:
    """What torch itself computes exactly where nothing has a fraction, above autograd and below; None: nothing."""
    op, plain = overload(name), plain_name(name)
    if _is_composed(name):
        return op.decompose, op.decompose
    if kind_of(plain) not in (Kind.INTEGER, Kind.ROUNDS, Kind.MOVES, Kind.EXACT):
        return None, None
    above, below = _below_autograd(op), TorchKernel(op, device)
    return (_whole(function, above), _whole(function, below)) if plain == "div" else (above, below)


def _whole(function: Function, quotient: Function) -> Function:
    """Of `div`: torch's quotient where that is an integer."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if kwargs.get("rounding_mode") is None else quotient)(*args, **kwargs)

    return call


def _has_fraction(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    if isinstance(value, (list, tuple)):
        return any(map(_has_fraction, value))
    if isinstance(value, torch.dtype):
        return value.is_floating_point or value.is_complex
    return isinstance(value, (float, complex))


def _chosen(function: Function, otherwise: Function | None) -> Function:
    """The function, for floating-point tensors only if torch's own kernel is exact for others."""
    if otherwise is None:
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        try:
            if isinstance(first, torch.Tensor) and first.is_floating_point():  # most calls
                return function(*args, **kwargs)
            if any(map(_has_fraction, args)) or any(map(_has_fraction, kwargs.values())):
                return function(*args, **kwargs)
        except DTypeError as error:  # as a TypeError it would be lost in an operator of Python
            raise UnsupportedError(str(error)) from error
        return otherwise(*args, **kwargs)

    return call


def _without_gradients(function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return function(*args, **kwargs)
        with torch.no_grad():
            return function(*args, **kwargs)

    return call


def _below_autograd(op: Any) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return call


class _State:
    session: _Session | None = None


_state = _State()


def enable(contract: Contract | str | None = None, on_uncovered: str = "raise") -> None:
    """Make torch's ops reproducible, in all threads, until `disable`.

    Every op of torch that the program reaches, in the forward and the backward pass and in optimizers, is computed by
    RepDL's function for it, with the bits that a converted model has; what moves data or is exact stays torch's;
    anything else raises. Random numbers are those of `repdl.random` from the seed of torch's generators. What
    `torch.compile` has compiled or would compile runs uncompiled.

    Args:
        contract: the contract to compute by; None: the one that is set.
        on_uncovered: "raise", or "warn", which says where the result is not reproducible any more.

    Raises:
        ArgumentError: if `on_uncovered` is neither.
        UnsupportedError: from any op of torch that is not reproducible, naming op, module, line and what to use.
    """
    if on_uncovered not in ON_UNCOVERED:
        raise ArgumentError(f"enable: on_uncovered is {on_uncovered!r}, expected one of {ON_UNCOVERED}")
    with _lock:
        if _state.session is not None:
            _state.session.end()
        _state.session = _Session(contract, on_uncovered)


def disable() -> None:
    """Torch's ops are torch's again; nothing happens if they are already."""
    with _lock:
        if _state.session is not None:
            _state.session.end()
            _state.session = None


@contextmanager
def enabled(contract: Contract | str | None = None, on_uncovered: str = "raise") -> Iterator[None]:
    """`enable` for a `with` block. At its end everything is as before, in an outer block too."""
    with _lock:
        outer = _state.session
        enable(contract, on_uncovered)
    try:
        yield
    finally:
        with _lock:
            disable()
            if outer is not None:
                enable(*outer.settings)


__all__ = ["ON_UNCOVERED", "disable", "enable", "enabled"]
