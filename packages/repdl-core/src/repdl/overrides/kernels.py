"""Which kernels are put into torch's dispatcher while `repdl.enable()` holds.

An op that RepDL has a function for gets it at two keys, autograd's and the device's. What moves data or is exact stays
torch's, with the derivatives that torch gives to it, which are ops again. An op that torch composes of others needs
nothing, unless RepDL has a function of its own for it. All others are refused.
"""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import torch
from torch import _C

from repdl.audit.collectives import is_collective
from repdl.audit.op_classes import OpClass, class_of, plain_name
from repdl.audit.reproducibility import BY_PLACE, CONDITIONS, REASONS, unknown
from repdl.callcache import guard
from repdl.errors import ArgumentError, DTypeError, UnsupportedError
from repdl.overrides import collectives, dtensors, nans, overlaps, repeats, transforms
from repdl.overrides.binding import bound, for_each, in_place, into, parameters_of
from repdl.overrides.conversions import NAMES as CONVERSIONS, defined
from repdl.overrides.functions import functions
from repdl.overrides.refusal import Refusals
from repdl.overrides.torchs import BELOW, UNREACHED, TorchKernel, is_composed, overload
from repdl.registry import OPS
from repdl.registry.aten import Override
from repdl.registry.schema import LIBRARIES

Function = Callable[..., Any]
_LISTS = "_foreach_"
_NOT_COMPUTING = frozenset({"repdl", "prim", "prims", "profiler", "debugprims", "rngprims"})
"""Namespaces of ops that compute nothing, or by ops of `aten`."""
_LAYOUTS = {
    "CPU": ("SparseCPU", "SparseCsrCPU", "QuantizedCPU", "NestedTensorCPU", "MkldnnCPU"),
    "CUDA": ("SparseCUDA", "SparseCsrCUDA", "QuantizedCUDA", "NestedTensorCUDA"),
}
"""The keys of tensors that are not plain memory."""
_COMPOSED = frozenset({"rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "allclose"})
"""Ops that torch composes of others without saying so to its dispatcher: numbers are drawn into an empty tensor."""

ENTERED: set[CodeType] = set()
"""What torch's dispatcher calls of Python while `repdl.enable()` holds."""

Kernel = tuple[str, str, Function, bool]
"""The name of an op, a key of the dispatcher, what is put there, and whether it asks for the keys of the call."""
_Known = dict[str, tuple[Kernel, ...]]
"""The name of an op -> its kernels."""
_found: defaultdict[tuple[str, str], _Known] = defaultdict(dict)
"""For a device and what happens with uncovered ops: of ops that have the kernels they came with."""


@dataclass(frozen=True)
class Keys:
    """Where the kernels of an op are put, above autograd and below it, and the device whose op it is."""

    device: str
    above: str
    below: str

    @classmethod
    def of(cls, device: str) -> Keys:
        """A device's own."""
        return cls(device, f"Autograd{device}", device)


@functools.cache
def _lasting() -> frozenset[str]:
    """The ops that no library of Python has defined, which might define others of their names."""
    return frozenset(_C._dispatch_get_all_op_names()) - torch.library._defs


class Found:
    """What was found out of ops, made before any of it is put into torch.

    An op into which somebody has put a kernel by `torch.library`, which may be gone the next time, is looked at anew;
    one that a library of Python has defined, whenever it is asked for.
    """

    def __init__(self) -> None:
        others = (key.split("/") for key in torch.library._impls)
        changed = {f"{namespace}::{name}" for namespace, name, key, *_ in others if key not in UNREACHED}
        self._here: defaultdict[tuple[str, str], _Known] = defaultdict(dict)
        self._changed, self._same = _lasting() & changed, _lasting() - changed

    def of(self, device: str, on_uncovered: str) -> Callable[[str], _Known]:
        """Where it is kept, for the name of an op."""
        always, here = _found[device, on_uncovered], self._here[device, on_uncovered]
        return lambda name: always if name in self._same else here if name in self._changed else {}


def kernels(device: str, on_uncovered: str, names: Iterable[str], before: Found) -> Iterator[Kernel]:
    """What is put into torch for the ops of these names, as torch's dispatcher gives them."""
    refusals = Refusals(on_uncovered)
    known = before.of(device, on_uncovered)
    for name in names:
        found = known(name).get(name)
        if found is None:
            if is_apart(name):
                continue
            found = (*of_op(name, Keys.of(device), refusals), *_of_layouts(name, device, refusals))
            for _, _, function, _ in found:
                _note_entered(function)
            known(name)[name] = found
        yield from found


def of_op(name: str, keys: Keys, refusals: Refusals) -> Iterator[Kernel]:
    """The kernels of an op at these keys; what it writes has memory of its own for each element."""
    found = [*_of(name, keys, refusals)]
    there = _C._dispatch_has_computed_kernel_for_dispatch_key(name, keys.device)
    if not (name.startswith("aten::") and there and overlaps.writes(name)):
        yield from found
        return
    if not found and not is_composed(name, keys.device):
        found = [(name, keys.below, TorchKernel(overload(name), keys.below).fast, True)]
    for _, key, function, with_keyset in found:
        _note_entered(function)
        if key != transforms.KEY:  # whose kernels call the op again
            function = overlaps.guarded(name, function, with_keyset, refusals)
        yield name, key, function, with_keyset


def _of(name: str, keys: Keys, refusals: Refusals) -> Iterator[Kernel]:
    """The kernels of an op at these keys, while all that it has are torch's."""
    device, below = keys.device, keys.below
    namespace = name.partition("::")[0]
    if not _C._dispatch_has_computed_kernel_for_dispatch_key(name, device):
        return
    if is_collective(name):
        yield from collectives.kernels(name, below, refusals)
        return
    plain = plain_name(name)
    op_class = class_of(plain)
    override = _override(name, plain) if namespace == "aten" else None
    if override is not None:
        op = overload(name)
        recorded: Function | None = None
        computed: Function | None = None
        if op_class in (OpClass.INTEGER, OpClass.ROUNDS, OpClass.MOVES, OpClass.EXACT):
            recorded, computed = functools.partial(_below_autograd, op), TorchKernel(op, below)
        elif is_composed(name, device):
            recorded = computed = op.decompose
        shared = None if plain.startswith(_LISTS) or below == BELOW else dtensors.torchs_way(name, device)
        yield name, keys.above, _chosen(plain, override, recorded, shared), False
        plainly = replace(override, function=functools.partial(_without_gradients, override.function))
        yield name, below, _chosen(plain, plainly, computed), False
        if name in transforms.OPS and below == "CPU":
            yield name, transforms.KEY, transforms.wrap_scalars(overload(name)), True
    elif is_composed(name, device) or plain in _COMPOSED:
        return
    elif plain in CONVERSIONS:
        conversion = defined(name, TorchKernel(overload(name), below))
        if conversion is not None:
            yield name, below, conversion, True
    elif plain in nans.OPS:
        op = overload(name)
        original = TorchKernel(op, below)
        conditional = refusals.conditional(op, original) if plain in CONDITIONS else original.given
        yield name, below, nans.canonical(plain, conditional), True
    elif name.removeprefix("aten::") in nans.NUMBERS:
        yield name, below, nans.of_numbers(name, TorchKernel(overload(name), below)), True
    elif plain in nans.WORDS and plain not in CONDITIONS:
        yield name, below, nans.WordKernel(overload(name), below).given, True
    elif plain in CONDITIONS or plain == "sgn" or op_class is OpClass.INTEGER:
        op = overload(name)
        original = (nans.WordKernel if plain in nans.WORDS else TorchKernel)(op, below)
        conditional = refusals.conditional(op, original)
        if plain in repeats.OPS:
            conditional = repeats.last_stays(op, original, conditional)
        elif plain not in BY_PLACE:
            _note_entered(conditional)
            conditional = guard("whole with results", original.fast, conditional)
        yield name, below, conditional, True
    elif op_class not in (OpClass.MOVES, OpClass.EXACT):
        yield name, below, refusals.kernel(name, below, unknown(name) if op_class is None else REASONS[op_class]), True


def _of_layouts(name: str, device: str, refusals: Refusals) -> Iterator[Kernel]:
    """Refusals of an op at the keys of tensors that are not plain memory."""
    if class_of(plain_name(name)) in (OpClass.MOVES, OpClass.EXACT):
        return
    if not _C._dispatch_has_kernel_for_any_dispatch_key(name, _layouts(device)):
        return
    for key in _LAYOUTS[device]:
        if _C._dispatch_has_kernel_for_dispatch_key(name, key):
            yield name, key, refusals.kernel(name, key, f"computes with tensors of another layout ({key})"), True


@functools.cache
def _layouts(device: str) -> Any:
    """The keys of them as one set: most ops have a kernel at none."""
    keys = (_C.DispatchKeySet(_C._dispatch_key_parse(key)) for key in _LAYOUTS[device])
    return functools.reduce(operator.or_, keys)


def passes(name: str, devices: Iterable[str]) -> bool:
    """Whether nothing is put before torch's kernel of an op: it moves data, is exact, or is composed of other ops."""
    if class_of(plain_name(name)) in (OpClass.MOVES, OpClass.EXACT):
        return True
    return plain_name(name) in _COMPOSED or all(is_composed(name, device) for device in devices)


def is_apart(name: str) -> bool:
    """Whether an op computes nothing, or is a registered one."""
    namespace, _, rest = name.partition("::")
    if namespace in _NOT_COMPUTING or rest.startswith("sym_"):
        return True
    return namespace in LIBRARIES and any(name == op.overload.name() for op in OPS.values())


def is_computed(name: str) -> bool:
    """Whether RepDL computes an op of this name while `repdl.enable()` holds, or torch composes it of others."""
    namespace, plain = name.partition("::")[0], plain_name(name)
    if is_composed(name, "CPU") or plain in _COMPOSED or plain in CONVERSIONS:
        return True
    return namespace == "aten" and _override(name, plain) is not None


def _override(name: str, plain: str) -> Override | None:
    """What computes an op of `aten`, with the arguments of its schema, or None."""
    raw = name.partition("::")[2].partition(".")[0]
    if plain.startswith(_LISTS):
        function = _of_lists(name, raw.removeprefix(_LISTS), plain.removeprefix(_LISTS))
        return function and Override(function)
    override = functions().get(raw) or functions().get(plain)
    if override is None:
        return None
    schema = overload(name)._schema
    outputs = [a.name for a in schema.arguments if a.is_out]

    def of_form(function: Function) -> Function:
        if outputs:
            names = {parameter.name for parameter in parameters_of(override.function)}
            makes = "dtype" in names and not any("Tensor" in str(a.type) for a in schema.arguments if not a.is_out)
            return into(plain, function, outputs, makes and not any(a.name == "dtype" for a in schema.arguments))
        return function if raw in functions() else in_place(function)

    function = of_form(override.function if override.as_given else bound(plain, override, schema))
    return replace(override, function=function, of_complex=override.of_complex and of_form(override.of_complex))


def _of_lists(name: str, raw: str, plain: str) -> Function | None:
    if plain not in functions() and plain not in CONVERSIONS and class_of(plain) not in (OpClass.MOVES, OpClass.EXACT):
        return None
    schema = overload(name)._schema
    given = [a.type for a in schema.arguments if not a.kwarg_only]
    keyword = "value" if plain in ("addcmul", "addcdiv") else None
    op = _of_elements(raw, given[:3] if keyword else given)
    if op is None and raw != plain:
        single = _of_elements(plain, given)
        op = single and in_place(single)  # as there is no maximum_
    if op is None or any(a.is_out for a in schema.arguments):
        return None
    return for_each(op, [isinstance(t, torch.ListType) for t in given], keyword, bool(schema.returns))


def _of_elements(name: str, given: Sequence[Any]) -> Any:
    """The op of a name that takes elements of lists, or all of the name that torch may choose from."""
    packet = getattr(torch.ops.aten, name, None)
    wanted = [str(t.getElementType()) if isinstance(t, torch.ListType) else str(t) for t in given]
    for which in () if packet is None else packet.overloads():
        op = getattr(packet, which)
        if wanted == [str(a.type) for a in op._schema.arguments if not a.kwarg_only]:
            return op
    return packet


def _is_complex(value: Any) -> bool:
    if isinstance(value, torch.dtype):
        return value.is_complex
    return isinstance(value, complex) or (isinstance(value, torch.Tensor) and value.is_complex())


def _of_subclass(name: str, values: Sequence[Any]) -> str | None:
    """What the error says if a tensor is of a class that knows torch's ops alone."""
    for value in values:
        if isinstance(value, (list, tuple)):
            message = _of_subclass(name, value)
        elif isinstance(value, torch.Tensor) and type(value).__torch_dispatch__ is not _C._disabled_torch_dispatch_impl:
            message = (
                f"{name}: a {type(value).__name__}, whose __torch_dispatch__ knows no ops of RepDL, expected a plain "
                f"tensor; call the op with the plain tensors that it holds"
            )
        else:
            continue
        if message is not None:
            return message
    return None


def _has_fraction(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    if isinstance(value, (list, tuple)):
        return any(map(_has_fraction, value))
    if isinstance(value, torch.dtype):
        return value.is_floating_point or value.is_complex
    return isinstance(value, (float, complex))


class _Thread(threading.local):
    def __init__(self) -> None:
        self.computing: set[str] = set()
        """Ops on integers that functions of RepDL compute now."""


_THREAD = _Thread()


def _chosen(name: str, override: Override, otherwise: Function | None, of_dtensors: Function | None = None) -> Function:
    """The function of an override, but for integers and booleans torch's own kernel, if it is exact for them.

    An override of integers has it too: its function may call the op itself.
    """
    function = override.function
    either = _Either(name, override, otherwise, of_dtensors)
    _note_entered(function)
    _note_entered(either)
    whole = either if override.integers or otherwise is None else guard("whole", otherwise, either)
    return guard("floating", function, whole)


@dataclass(frozen=True, eq=False, slots=True)
class _Either:
    """The function of an override, its function of complex numbers, or torch's own kernel, as the arguments need.

    Thousands are made. Each is one object, so that the search for garbage at the end of a program has less to look at.
    """

    name: str
    override: Override
    otherwise: Function | None
    of_dtensors: Function | None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.of_dtensors is not None and dtensors.is_among((*args, *kwargs.values())):
            return self.of_dtensors(*args, **kwargs)
        override = self.override
        try:
            if override.of_complex is not None and any(map(_is_complex, (*args, *kwargs.values()))):
                return override.of_complex(*args, **kwargs)
            return self._of_numbers(*args, **kwargs)
        except (ArgumentError, DTypeError) as error:  # as a TypeError it would be lost in an operator of Python
            raise UnsupportedError(str(error)) from error
        except TypeError as error:
            message = _of_subclass(self.name, (*args, *kwargs.values()))
            if message is None or not str(error).startswith("Multiple dispatch failed for"):
                raise
            raise UnsupportedError(message) from error

    def _of_numbers(self, /, *args: Any, **kwargs: Any) -> Any:
        function, otherwise = self.override.function, self.otherwise
        if otherwise is None:
            return function(*args, **kwargs)
        fraction = any(map(_has_fraction, args)) or any(map(_has_fraction, kwargs.values()))
        if not (fraction or self.override.integers) or self.name in _THREAD.computing:
            return otherwise(*args, **kwargs)
        _THREAD.computing.add(self.name)
        try:
            return function(*args, **kwargs)
        finally:
            _THREAD.computing.discard(self.name)


def _note_entered(function: Function) -> None:
    """Note the code that is entered where a function is called; the objects of a class share it."""
    while isinstance(function := inspect.unwrap(function), functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if code is not None:
        ENTERED.add(code)


def _without_gradients(function: Function, /, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    with torch.no_grad():
        return function(*args, **kwargs)


def _below_autograd(op: Any, /, *args: Any, **kwargs: Any) -> Any:
    with _C._AutoDispatchBelowAutograd():
        return op(*args, **kwargs)


__all__ = [
    "ENTERED",
    "Found",
    "Kernel",
    "Keys",
    "is_apart",
    "is_computed",
    "kernels",
    "of_op",
    "passes",
]
