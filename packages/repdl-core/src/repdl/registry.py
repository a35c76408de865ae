"""The op registry: what an op is, and which backend computes it.

`define` gives an op its schema, its checks, its fake kernel and its autograd formula,
all in `torch.library`; backends bring the implementations. A call goes

    repdl.ops.mm -> torch.ops.repdl.matmul -> check -> backend implementation

and an implementation takes exactly the arguments of the schema, already checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from repdl import autocast as autocasts
from repdl.backend import BACKENDS, Backend
from repdl.callcache import ValueRange, cache_calls, cache_update, record_change, record_check
from repdl.derivative import autograd_kernel, batching_rule, check_reverse_mode
from repdl.dtypes import HALF, Dtypes, Storage
from repdl.errors import DeviceError, NameTakenError, UnsupportedError
from repdl.memory import check_apart
from repdl.untraced import opaque

IsSlope = bool | Callable[..., bool]


@dataclass(frozen=True)
class Op:
    """One registered op: `name` as in `torch.ops.repdl.<name>`, `family` as in the
    names of its files (contract text, reference, kernels, tests). `differentiable` is
    None for an op that changes its arguments or is constant, of which nobody asks a derivative.
    `formula` is what an op computes by the ops that it `calls`: a backend with those has it, and may have a kernel
    with the same bits besides.
    `host` has the arguments whose values the host reads, on the CPU wherever the others are.
    `fixed` are tensors without a derivative; `is_slope` says, of arguments, whether that of the others is the slope of
    the op's values, or is a bool for all."""

    name: str
    family: str
    schema: str
    check: Callable[..., None]
    fake: Callable[..., Any]
    overload: torch._ops.OpOverload = field(repr=False)
    distribution: str = "repdl-core"
    storage: Storage | None = field(default=None, repr=False)
    differentiable: bool | None = True
    formula: Callable[..., Any] | None = field(default=None, repr=False)
    calls: frozenset[str] = frozenset()
    host: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    is_slope: IsSlope = True

    @property
    def has_order(self) -> bool:
        """Whether the op takes a contract: one without gives the same bits under all."""
        return "str contract" in self.schema

    @property
    def mutates(self) -> bool:
        """Whether the op changes its arguments, as an optimizer's step does."""
        return self.overload._schema.is_mutable

    @property
    def takes_lists(self) -> bool:
        """Whether some of the arguments are lists of tensors."""
        return any(str(argument.type) == "List[Tensor]" for argument in self.overload._schema.arguments)

    def takes(self, dtype: torch.dtype) -> bool:
        """Whether the op takes tensors of a floating-point dtype; for one without `dtypes`, its check decides."""
        return self.storage is None or dtype in self.storage.dtypes.supported


OPS: dict[str, Op] = {}
LIBRARIES: dict[str, torch.library.Library] = {}
"""By namespace."""


def define(
    name: str,
    schema: str,
    *,
    check: Callable[..., None],
    fake: Callable[..., Any],
    check_values: Callable[..., ValueRange | None] | None = None,
    setup_context: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
    dtypes: Dtypes | None = None,
    autocast: autocasts.Lists | None = None,
    updates: bool = False,
    host: Iterable[str] = (),
    constant: bool = False,
    fixed: Iterable[str] = (),
    is_slope: IsSlope = True,
    formula: Callable[..., Any] | None = None,
    calls: Iterable[str] = (),
    family: str | None = None,
    namespace: str = "repdl",
    distribution: str = "repdl-core",
) -> Callable[..., Any]:
    """Register an op and return a function that calls its `torch.ops` overload.

    Args:
        schema: arguments and returns as `torch.library` spells them; the contract, where
            the op has an order, is a last argument `str contract`.
        check: raises for arguments outside the contract; runs before any kernel, fake ones too.
        check_values: the same where the values of tensors decide; not run on fake tensors. Of those on a device it
            reads none: kernels look at their indices themselves (`ops/common/index.py`). Returns `ValueRange` bounds
            (`repdl.callcache`) if nothing else is asked of the values, `NOT_READ` if it has read none, else None.
        fake: returns empty outputs of the right shape and dtype.
        setup_context, backward: as in `torch.library.register_autograd`. Without them
            the op is marked as not differentiable and a backward through it raises,
            unless its schema mutates its arguments.
        dtypes: the dtypes that the op takes, checked first. An implementation then sees
            float32 or float64 only: half storage is widened before it and rounded after it.
            None: `check` looks at dtypes itself, and implementations see what it lets through.
        autocast: what torch.autocast makes of the op, a list of `repdl.autocast`; None: nothing.
        updates: the op updates lists of tensors in place, element by element, and what its checks see of a
            floating-point number is at most whether it is 0 (`repdl.callcache.cache_update`).
        host: tensors whose values the host reads before a kernel starts: they are on the CPU always.
        constant: the result depends on the values of no floating-point tensor, and requires no gradient.
        fixed: tensors that a derivative takes as constants, as torch does the weights of classes.
        is_slope: whether the derivative is the slope of the op's values, and can be compared with differences of them;
            where that depends on the arguments, a function of them. It is not where arguments are taken as functions of
            each other, such as the mean of `input` beside `input`, or where torch's is another on purpose.
        formula, calls: what a backend without a kernel of the op computes, as of `composite`. A kernel has its bits.
        family: the name of its files; by default the name of the op.
        namespace: the one in `torch.ops`, and the import package of its files (`repdl.families`).
        distribution: whose op it is. Outside projects pass their own, as with `namespace`.

    Raises:
        NameTakenError: if another project has an op or a family of that name: names are shared by all.
    """
    library, overload = _declare(name, schema, family or name, namespace)
    host = frozenset(host)
    device_of = _device_reader(name, overload._schema, host)
    storage = None if dtypes is None else Storage(name, overload._schema, dtypes)
    if formula is not None:
        BACKENDS.formulas[name] = torch.no_grad()(formula)
    halves = _of_halves(name, storage)
    floats, masks = ((), ()) if storage is None else (storage.floats, storage.bools)
    single, serve = torch.float32, BACKENDS.serve
    arguments = overload._schema.arguments
    lists = [i for i, argument in enumerate(arguments) if str(argument.type) == "List[Tensor]"]
    mutable = [
        index
        for index, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]

    def check_written(*args: Any) -> None:
        check(*args)
        for index in mutable:
            check_apart(name, **{arguments[index].name: args[index]})

    check_all = check_written if mutable else check

    def kernel(*args: Any) -> Any:
        device = device_of(args)
        check_reverse_mode(name)
        dtype = single
        if lists and args[lists[0]]:
            dtype = args[lists[0]][0].dtype
        for index in floats:
            if args[index] is not None and args[index].dtype is not single:
                dtype = storage.check(args)  # type: ignore[union-attr]
                break
        for index in masks:
            if args[index] is not None and args[index].dtype is not torch.bool:
                storage.check(args)  # type: ignore[union-attr]
        check_all(*args)
        if check_values is not None:
            record_check(check_values, args, check_values(*args))
        if dtype in HALF and storage is not None:
            implementation = halves or serve(name, device, single)
            result = storage.run(implementation, serve("cast", device, single), args)
        else:
            result = serve(name, device, dtype)(*args)
        for index in mutable:  # kernels write through addresses, which autograd does not see
            if args[index] is not None:
                torch.autograd.graph.increment_version(args[index])
                record_change(args[index] if index in lists else (args[index],))
        return result

    def fake_kernel(*args: Any) -> Any:
        check_reverse_mode(name)
        device_of(args)
        if storage is not None:
            storage.check(args)
        check(*args)
        result = fake(*args)
        return result if storage is None else storage.outputs(args, result, _fake_cast)

    library.impl(name, opaque(kernel), "CompositeExplicitAutograd")
    torch.library.register_fake(f"{namespace}::{name}", fake_kernel, lib=library)
    differentiable = True if backward is not None else None if mutable or constant else False
    if constant:
        setup_context, backward = _constant_context, _no_gradients(len(arguments))
    elif differentiable is False:
        setup_context, backward = _no_context, _raising_backward(name)
    if backward is not None:
        autograd = autograd_kernel(overload, kernel, setup_context, autocasts.without(backward))
        library.impl(name, autograd, "Autograd", with_keyset=True)
        if not mutable:
            torch.library.register_vmap(overload, batching_rule(overload), lib=library)
    for device, dtype in (autocast or {}).items():
        library.impl(name, opaque(autocasts.kernel(overload, device, dtype)), autocasts.KEYS[device])
    whole = None if formula is None else _of_any_storage(formula, storage)
    OPS[name] = Op(
        *(name, family or name, schema, check_all, fake, overload, distribution, storage, differentiable),
        *(whole, frozenset(calls), host, frozenset(fixed), is_slope),
    )
    return _function(name, overload, cache_update if updates else cache_calls if not mutable else None)


class _Functions:
    """The registered ops by name, as `define` returns them: for derivatives and formulas, which call ops of others."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"no op {name!r} is registered")


functions = _Functions()


def composite(
    name: str,
    schema: str,
    formula: Callable[..., Any],
    *,
    calls: Iterable[str],
    check: Callable[..., None],
    dtypes: Dtypes,
    check_values: Callable[..., ValueRange | None] | None = None,
    fake: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
    backward: Callable[..., Any] | None = None,
    autocast: autocasts.Lists | None = None,
    host: Iterable[str] = (),
    fixed: Iterable[str] = (),
    is_slope: IsSlope = True,
    family: str | None = None,
    namespace: str = "repdl",
    distribution: str = "repdl-core",
) -> Callable[..., Any]:
    """Register an op that is a formula over registered ops, and return a function that calls its `torch.ops` overload.

    Derivatives, every backend and half storage follow from the formula, which calls registered ops and
    moves data, and sees float32 and float64 only: halves are widened before it, and its result rounded.

    Args:
        calls: the names of the ops that the formula calls, beside `cast`.
        fake, setup_context, backward: of a formula whose derivative has an order of its own, which autograd would
            not give it, a sum over all steps, say: as of `define`, all three. So is `check_values`, which only such
            a formula has.
        The others: as of `define`.

    Raises:
        NameTakenError: if another project has an op or a family of that name.
    """
    if backward is not None:
        assert fake is not None
        return define(
            *(name, schema),
            check=check,
            check_values=check_values,
            fake=fake,
            setup_context=setup_context,
            backward=backward,
            dtypes=dtypes,
            autocast=autocast,
            host=host,
            fixed=fixed,
            is_slope=is_slope,
            formula=formula,
            calls=calls,
            family=family,
            namespace=namespace,
            distribution=distribution,
        )
    library, overload = _declare(name, schema, family or name, namespace)
    host = frozenset(host)
    device_of = _device_reader(name, overload._schema, host)
    storage = Storage(name, overload._schema, dtypes)
    compute = _of_any_storage(formula, storage)

    def run(*args: Any) -> Any:
        device_of(args)
        storage.check(args)
        check(*args)
        return compute(*args)

    library.impl(name, run, "CompositeImplicitAutograd")
    for device, lower in (autocast or {}).items():
        library.impl(name, opaque(autocasts.kernel(overload, device, lower)), autocasts.KEYS[device])
    OPS[name] = Op(
        *(name, family or name, schema, check, run, overload, distribution, storage, True, run),
        *(frozenset(calls), host, frozenset(fixed), is_slope),
    )
    return _function(name, overload)


def _of_any_storage(formula: Callable[..., Any], storage: Storage | None) -> Callable[..., Any]:
    """A formula that sees float32 and float64 only, for half storage too."""
    if storage is None:
        return formula

    def compute(*args: Any) -> Any:
        half = storage.storage_dtype(args) in HALF
        return storage.run(formula, functions.cast, args) if half else formula(*args)

    return compute


def _of_halves(op: str, storage: Storage | None) -> Callable[..., Any] | None:
    """The formula that computes an op on half storage even where a backend has a kernel: its ops round, each of them,
    and the kernel would round what the whole gives."""
    return BACKENDS.formulas.get(op) if storage is not None and storage.dtypes.moves else None


def _function(
    name: str, overload: Any, fast: Callable[[Any], Callable[..., Any]] | None = cache_calls
) -> Callable[..., Any]:
    function = overload if fast is None else fast(overload)
    setattr(functions, name, function)
    return function  # type: ignore[no-any-return]


def _declare(name: str, schema: str, family: str, namespace: str) -> tuple[torch.library.Library, Any]:
    """Tell torch of an op: the library to put its kernels into, and its overload."""
    _check_names(name, family, namespace)
    library = LIBRARIES.get(namespace)
    if library is None:
        library = LIBRARIES[namespace] = torch.library.Library(namespace, "FRAGMENT")
    library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    return library, getattr(getattr(torch.ops, namespace), name).default


def _check_names(name: str, family: str, namespace: str) -> None:
    for op in OPS.values():
        whose = f"is taken by {op.distribution} ({op.overload}); names are shared by all projects, choose another"
        if op.name == name:
            raise NameTakenError(f"define: the op name {name!r} {whose}")
        if op.family == family and op.overload.namespace != namespace:
            raise NameTakenError(f"define: the family name {family!r} {whose}")


def implement(op: str, backend: str, function: Callable[..., Any]) -> None:
    """Add an implementation of `op` to `backend`, which may be somebody else's.

    This is how an outside project brings the kernels of its own ops.
    """
    BACKENDS.implement(op, backend, function)


def in_float64(ops: Iterable[str]) -> list[str]:
    """Those of the ops that take float64: what a backend with a kernel for each of them claims."""
    return [op for op in ops if OPS[op].takes(torch.float64)]


def undefine(name: str) -> None:
    """Take an op out again, with what `implement` added for it (for tests and notebooks).

    torch keeps the schema for the rest of the process.
    """
    OPS.pop(name)
    BACKENDS.formulas.pop(name, None)
    BACKENDS.forget(name)


def lookup(op: str, device: str, dtype: torch.dtype = torch.float32) -> Callable[..., Any]:
    """The implementation that a call of `op` with tensors of `dtype` on `device` reaches."""
    return BACKENDS.serve(op, device, torch.float32 if dtype in HALF else dtype)


def implementations(backend: Backend) -> dict[str, Callable[..., Any]]:
    """Op name -> implementation: the backend's own, those added with `implement`, and what is composed of them.

    They take every dtype that the op takes: half storage is widened and rounded around
    them, as in a call of the op.
    """
    found = {op: _any_dtype(backend, op, function) for op, function in BACKENDS.kernels(backend).items()}
    composites = {
        name: _on_backend(backend, op.formula)
        for name, op in OPS.items()
        if op.formula is not None and _is_computed(op, found.keys())
    }
    return {**composites, **found}


def _is_computed(op: Op, kernels: Collection[str]) -> bool:
    """Whether a backend with these kernels has the op, as a formula over others if not as one of them."""
    return op.name in kernels or (op.formula is not None and all(_is_computed(OPS[n], kernels) for n in op.calls))


def _on_backend(backend: Backend, formula: Callable[..., Any]) -> Callable[..., Any]:
    """A composite op as a backend computes it."""

    def run(*args: Any) -> Any:
        with BACKENDS.use(backend.name), torch.no_grad():
            return formula(*args)

    return run


def _any_dtype(backend: Backend, op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for every dtype of the op; raises for one that the backend has no kernel for."""
    storage = OPS[op].storage if op in OPS else None
    if storage is None or op == "cast":
        return function

    def run(*args: Any) -> Any:
        dtype = storage.storage_dtype(args)
        with BACKENDS.use(backend.name):
            if dtype in HALF:
                return storage.run(
                    _of_halves(op, storage) or function, BACKENDS.serve("cast", backend.device, torch.float32), args
                )
            return BACKENDS.serve(op, backend.device, dtype)(*args)

    return run


def _fake_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(tensor, dtype=dtype)


def _device_reader(op: str, schema: Any, host: frozenset[str] = frozenset()) -> Callable[[tuple[Any, ...]], str]:
    """A function from the arguments of `op` to the device type that its tensors share.

    It raises for tensors on several devices, for those of `host` on another than the CPU, and for layouts
    without strides. Where the tensors stand is read off the schema once: this runs on every call.
    """
    kinds = [str(argument.type) for argument in schema.arguments]
    names = [argument.name for argument in schema.arguments]
    single = [i for i, kind in enumerate(kinds) if kind in ("Tensor", "Optional[Tensor]") and names[i] not in host]
    on_host = [i for i, name in enumerate(names) if name in host]
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
        for i in on_host:
            if args[i] is not None and args[i].device.type not in ("cpu", "meta"):
                raise DeviceError(
                    f"{op}: {names[i]} is on {args[i].device}, expected cpu, whatever the device of the others: "
                    f"its values are read before a kernel starts; move it with .cpu()"
                )
        if device is None:
            raise DeviceError(f"{op}: no tensor among the arguments")
        return device.type

    return read


def _no_context(ctx: Any, inputs: Any, output: Any) -> None:
    pass


def _constant_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(*((output,) if isinstance(output, torch.Tensor) else output))


def _no_gradients(arguments: int) -> Callable[..., Any]:
    return lambda ctx, *grads: (None,) * arguments


def _raising_backward(name: str) -> Callable[..., Any]:
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        others = sorted(op.name for op in OPS.values() if op.differentiable is False and op.name != name)
        neither = f", and neither have {', '.join(others)}" if others else ""
        raise UnsupportedError(f"{name}: has no derivative in the contract{neither}; every other op has one")

    return backward
