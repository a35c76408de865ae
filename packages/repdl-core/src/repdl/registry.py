"""The op registry: what an op is, and which backend computes it.

`define` gives an op its schema, its checks, its fake kernel and its autograd formula,
all in `torch.library`; backends bring the implementations. A call goes

    repdl.ops.mm -> torch.ops.repdl.matmul -> check -> backend implementation

and an implementation takes exactly the arguments of the schema, already checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import _C
from torch._library.autograd import Info, make_autograd_impl  # what register_autograd is made of
from torch.autograd import forward_ad

from repdl import config
from repdl.dtypes import HALF, Dtypes, Storage
from repdl.errors import BackendError, DeviceError, DTypeError, UnsupportedError


@dataclass(frozen=True)
class Op:
    """One registered op: `name` as in `torch.ops.repdl.<name>`, `family` as in the
    names of its files (contract text, reference, kernels, tests)."""

    name: str
    family: str
    schema: str
    check: Callable[..., None]
    fake: Callable[..., Any]
    overload: torch._ops.OpOverload = field(repr=False)
    distribution: str = "repdl-core"
    storage: Storage | None = field(default=None, repr=False)


@dataclass
class Backend:
    """A set of implementations for one device type.

    Args:
        name: what `use_backend` and `REPDL_BACKEND` call it; the entry point's name.
        device: the `torch.device.type` of the tensors that it takes.
        ops: op name -> implementation, a function with the arguments of the op's schema.
        priority: where several backends serve a device, the highest is picked.
        float64: names of the ops that have a kernel for float64 too; the others raise for it.
        describe: returns what to show of it (version, ISA, device name, ...).
    """

    name: str
    device: str
    ops: dict[str, Callable[..., Any]]
    priority: int = 0
    describe: Callable[[], Mapping[str, str]] = dict
    float64: Collection[str] = ()


_AFTER_AUTOGRAD = _C._after_autograd_keyset
grad_enabled, any_requires_grad = torch.is_grad_enabled, _C._any_requires_grad


@cache
def _is_plain(keyset: int) -> bool:
    """Whether the next stop of the dispatcher is a device's own kernel."""
    first = _C.DispatchKeySet.from_raw_repr(keyset).highestPriorityTypeId()
    return first in (_C.DispatchKey.CPU, _C.DispatchKey.CUDA)


OPS: dict[str, Op] = {}
_backends: dict[str, Backend] = {}
_failures: dict[str, BaseException] = {}
_extra: dict[tuple[str, str], Callable[..., Any]] = {}
_cache: dict[tuple[str, str], Callable[..., Any]] = {}
_chosen: dict[tuple[str, str], Backend] = {}
_libraries: dict[str, torch.library.Library] = {}
_state = {"discovered": False}


def define(
    name: str,
    schema: str,
    *,
    check: Callable[..., None],
    fake: Callable[..., Any],
    check_values: Callable[..., None] | None = None,
    setup_context: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
    dtypes: Dtypes | None = None,
    family: str | None = None,
    namespace: str = "repdl",
    distribution: str = "repdl-core",
) -> Callable[..., Any]:
    """Register an op and return its `torch.ops` overload.

    Args:
        schema: arguments and returns as `torch.library` spells them; the contract, where
            the op has an order, is a last argument `str contract`.
        check: raises for arguments outside the contract; runs before any kernel, fake ones too.
        check_values: the same where the values of tensors decide; not run on fake tensors.
        fake: returns empty outputs of the right shape and dtype.
        setup_context, backward: as in `torch.library.register_autograd`. Without them
            the op is marked as not differentiable and a backward through it raises,
            unless its schema mutates its arguments.
        dtypes: the dtypes that the op takes, checked first. An implementation then sees
            float32 or float64 only: half storage is widened before it and rounded after it.
            None: `check` looks at dtypes itself, and implementations see what it lets through.
        family: the name of its files; by default the name of the op.
        namespace, distribution: whose op it is; outside projects pass their own.
    """
    library = _libraries.get(namespace)
    if library is None:
        library = _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    overload = getattr(getattr(torch.ops, namespace), name).default
    device_of = _device_reader(name, overload._schema)
    storage = None if dtypes is None else Storage(name, overload._schema, dtypes)
    floats = () if storage is None else storage.floats
    single = torch.float32
    lists = [i for i, argument in enumerate(overload._schema.arguments) if str(argument.type) == "List[Tensor]"]
    mutable = [
        index
        for index, argument in enumerate(overload._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]

    def kernel(*args: Any) -> Any:
        device = device_of(args)
        if forward_ad._current_level >= 0:
            raise UnsupportedError(
                f"{name}: called in forward-mode differentiation (torch.func.jvp, dual_level), which would "
                f"take its derivative for 0; expected reverse mode; use torch.autograd.grad"
            )
        dtype = single
        if lists and args[lists[0]]:
            dtype = args[lists[0]][0].dtype
        for index in floats:
            if args[index] is not None and args[index].dtype is not single:
                dtype = storage.check(args)  # type: ignore[union-attr]
                break
        check(*args)
        if check_values is not None:
            check_values(*args)
        implementation = _cache.get((name, device))
        if implementation is None:
            implementation = _lookup(name, device)
        if dtype is single:
            result = implementation(*args)
        elif dtype is torch.float64 or storage is None:
            _require(_chosen[name, device], name, dtype)
            result = implementation(*args)
        else:
            cast = _cache.get(("cast", device)) or _lookup("cast", device)
            result = storage.run(implementation, cast, args)  # type: ignore[union-attr]
        for index in mutable:  # kernels write through addresses, which autograd does not see
            if args[index] is not None:
                torch.autograd.graph.increment_version(args[index])
        return result

    def fake_kernel(*args: Any) -> Any:
        device_of(args)
        if storage is not None:
            storage.check(args)
        check(*args)
        result = fake(*args)
        return result if storage is None else storage.outputs(args, result, _fake_cast)

    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{namespace}::{name}", fake_kernel, lib=library)
    if backward is None and not mutable:
        setup_context, backward = _no_context, _raising_backward(name)
    if backward is not None:
        differentiable = make_autograd_impl(overload, Info(backward, setup_context))
        direct = _direct_function(name, kernel, setup_context, backward)
        arguments = len(overload._schema.arguments)
        types = [str(value.type) for value in (*overload._schema.arguments, *overload._schema.returns)]
        indirect = any(kind.startswith("List[") and "Tensor" in kind for kind in types)

        def autograd_kernel(keyset: Any, *args: Any) -> Any:
            # With nothing in between (no mode, no tracing), straight to the kernel: a second way
            # through the dispatcher costs more than the checks. Lists of tensors take that way, and
            # arguments left to their defaults, which the dispatcher takes away.
            if indirect or len(args) != arguments or not _is_plain((keyset & _AFTER_AUTOGRAD).raw_repr()):
                return differentiable(keyset, *args)
            if grad_enabled() and any_requires_grad(*args):
                return direct(*args)
            return kernel(*args)

        library.impl(name, autograd_kernel, "Autograd", with_keyset=True)
    OPS[name] = Op(name, family or name, schema, check, fake, overload, distribution, storage)
    return overload


def implement(op: str, backend: str, function: Callable[..., Any]) -> None:
    """Add an implementation of `op` to `backend`, which may be somebody else's.

    This is how an outside project brings the kernels of its own ops.
    """
    _extra[op, backend] = function
    _cache.clear()


def ops_of(package: str) -> dict[str, dict[str, Callable[..., Any]]]:
    """Family -> its implementations, for a package with a module for each family of RepDL's own ops.

    A module names what it implements in `OPS`, a dictionary from op names to functions.
    """
    import_module("repdl.ops")
    families = sorted({op.family for op in OPS.values() if op.distribution == "repdl-core"})
    return {family: import_module(f"{package}.{family}").OPS for family in families}


def register_backend(backend: Backend) -> None:
    """Add a backend without an entry point (for tests and notebooks)."""
    _backends[backend.name] = backend
    _failures.pop(backend.name, None)
    _cache.clear()


def unregister_backend(name: str) -> None:
    """Take a backend out again."""
    _backends.pop(name, None)
    _cache.clear()


@dataclass(frozen=True)
class BackendInfo:
    """One row of `repdl.backends()`. `error` is why it could not be loaded, or None."""

    name: str
    device: str
    ops: int
    priority: int
    error: str | None
    details: Mapping[str, str]


def backends() -> dict[str, BackendInfo]:
    """Every installed backend by name, the ones that failed to load included."""
    _discover()
    rows = {
        name: BackendInfo(name, b.device, len(implementations(b)), b.priority, None, b.describe())
        for name, b in _backends.items()
    }
    for name, error in _failures.items():
        rows[name] = BackendInfo(name, "?", 0, 0, f"{type(error).__name__}: {error}", {})
    return dict(sorted(rows.items()))


def get_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        BackendError: if it is not installed, or failed to load (with the cause).
    """
    _discover()
    if name in _backends:
        return _backends[name]
    if name in _failures:
        raise BackendError(
            f"backend {name!r} is installed but failed to load: "
            f"{type(_failures[name]).__name__}: {_failures[name]}"
        ) from _failures[name]
    known = ", ".join(sorted(_backends)) or "none"
    raise BackendError(
        f"backend {name!r} is not installed (installed: {known}); pip install repdl-{name}"
    )


def set_backend(name: str | None) -> None:
    """Compute every op with backend `name`, process-wide; None picks by device again.

    Raises:
        BackendError: if the backend is not installed or failed to load.
    """
    if name:
        get_backend(name)
    config.state.backend = name or ""
    _cache.clear()


@contextmanager
def use_backend(name: str) -> Iterator[Backend]:
    """`set_backend(name)` inside a `with` block."""
    before = config.state.backend
    set_backend(name)
    try:
        yield _backends[name]
    finally:
        config.state.backend = before
        _cache.clear()


def lookup(op: str, device: str) -> Callable[..., Any]:
    """The implementation that a call of `op` with tensors on `device` reaches."""
    return _cache.get((op, device)) or _lookup(op, device)


def implementations(backend: Backend) -> dict[str, Callable[..., Any]]:
    """Op name -> implementation: the backend's own, and those added with `implement`.

    They take every dtype that the op takes: half storage is widened and rounded around
    them, as in a call of the op.
    """
    table = _kernels(backend)
    return {op: _any_dtype(backend, op, function, table.get("cast")) for op, function in table.items()}


def _kernels(backend: Backend) -> dict[str, Callable[..., Any]]:
    """The implementations as they are, for float32 and float64."""
    added = {op: function for (op, name), function in _extra.items() if name == backend.name}
    return {**backend.ops, **added}


def _any_dtype(
    backend: Backend, op: str, function: Callable[..., Any], cast: Callable[..., Any] | None
) -> Callable[..., Any]:
    """`function` for every dtype of the op; raises for one that the backend has no kernel for."""
    storage = OPS[op].storage if op in OPS else None
    if storage is None or op == "cast":
        return function

    def run(*args: Any) -> Any:
        dtype = storage.storage_dtype(args)
        if dtype in HALF:
            if cast is None:
                raise BackendError(f"{op}: backend {backend.name!r} has no cast, which {dtype} needs")
            return storage.run(function, cast, args)
        _require(backend, op, dtype)
        return function(*args)

    return run


def has_kernel(backend: Backend, op: str, dtype: torch.dtype) -> bool:
    """Whether the backend computes `op`, which it implements, on tensors of `dtype`."""
    return dtype is not torch.float64 or op in backend.float64 or (op, backend.name) in _extra


def _require(backend: Backend, op: str, dtype: torch.dtype) -> None:
    if not has_kernel(backend, op, dtype):
        halves = "" if OPS[op].storage is None else ", bfloat16 or float16"
        raise DTypeError(
            f"{op}: backend {backend.name!r} has no kernel for float64 yet, expected float32{halves}; "
            f"repdl.use_backend('reference') computes it, slowly"
        )


def _fake_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(tensor, dtype=dtype)


def _lookup(op: str, device: str) -> Callable[..., Any]:
    _discover()
    chosen = config.state.backend
    if chosen:
        backend = get_backend(chosen)
        if backend.device != device:
            raise BackendError(
                f"{op}: backend {chosen!r} takes {backend.device} tensors, got {device}; "
                f"move the tensors or choose another backend"
            )
        candidates = [backend]
    else:
        if device in _failures:
            get_backend(device)
        candidates = sorted(
            (b for b in _backends.values() if b.device == device), key=lambda b: -b.priority
        )
        if not candidates:
            raise BackendError(
                f"{op}: no backend for {device} tensors is installed; pip install repdl-{device}"
            )
    for backend in candidates:
        implementation = _kernels(backend).get(op)
        if implementation is not None:
            _chosen[op, device] = backend
            _cache[op, device] = implementation
            return implementation
    raise BackendError(
        f"{op}: not implemented by {' or '.join(b.name for b in candidates)} for {device} tensors"
    )


def _discover() -> None:
    """Load the entry points of `repdl.backends` once; a failure is kept, not raised."""
    if _state["discovered"]:
        return
    _state["discovered"] = True
    for point in entry_points(group="repdl.backends"):
        if point.name in _backends:
            continue
        try:
            backend = point.load()
            if not isinstance(backend, Backend):
                raise TypeError(f"{point.value} is a {type(backend).__name__}, expected repdl.Backend")
            _backends[point.name] = backend
        except Exception as error:
            _failures[point.name] = error


def _device_reader(op: str, schema: Any) -> Callable[[tuple[Any, ...]], str]:
    """A function from the arguments of `op` to the device type that its tensors share.

    It raises for tensors on several devices, and for layouts without strides. Where the
    tensors stand is read off the schema once: this runs on every call.
    """
    kinds = [str(argument.type) for argument in schema.arguments]
    single = [i for i, kind in enumerate(kinds) if kind in ("Tensor", "Optional[Tensor]")]
    lists = [i for i, kind in enumerate(kinds) if kind == "List[Tensor]"]
    strided = torch.strided

    def read(args: tuple[Any, ...]) -> str:
        tensors = [args[i] for i in single]
        for i in lists:
            tensors += args[i]
        device = None
        for tensor in tensors:
            if tensor is None:
                continue
            if tensor.layout is not strided:
                raise UnsupportedError(
                    f"{op}: a tensor's layout is {tensor.layout}, expected torch.strided; "
                    f"convert it first with .to_dense()"
                )
            if device is None:
                device = tensor.device
            elif tensor.device != device:
                raise DeviceError(
                    f"{op}: tensors on {device} and {tensor.device}, expected one device; "
                    f"move them with .to({str(device)!r})"
                )
        if device is None:
            raise DeviceError(f"{op}: no tensor among the arguments")
        return device.type

    return read


def _direct_function(
    name: str, kernel: Callable[..., Any], setup_context: Callable[..., None] | None, backward: Callable[..., Any]
) -> Callable[..., Any]:
    """`kernel` with its derivative, as `make_autograd_impl` would do it, without the dispatcher in between."""

    def forward(ctx: Any, *args: Any) -> Any:
        with _C._AutoDispatchBelowAutograd():
            output = kernel(*args)
            if setup_context is not None:
                setup_context(ctx=ctx, inputs=args, output=output)
            return output

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function = type(f"{name}_with_derivative", (torch.autograd.Function,), members)
    return function.apply  # type: ignore[attr-defined,no-any-return]


def _no_context(ctx: Any, inputs: Any, output: Any) -> None:
    pass


def _raising_backward(name: str) -> Callable[..., Any]:
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        raise UnsupportedError(
            f"{name}: has no derivative in the contract; if this is a second derivative, "
            f"only matmul, linear, conv2d, sum, softmax, pad, max_pool2d and the elementwise ops have one"
        )

    return backward
