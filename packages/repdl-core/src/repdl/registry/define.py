"""The op registry: what an op is, and which backend computes it.

`define` gives an op its schema, its checks, its fake kernel and its autograd formula,
all in `torch.library`; backends bring the implementations. A call goes

    repdl.ops.mm -> torch.ops.repdl.matmul -> check -> backend implementation

and an implementation takes exactly the arguments of the schema, already checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from repdl.callcache import ValueRange, cache_calls, cache_update, record_change, record_check
from repdl.dtypes import FLOATS_16_BIT, Dtypes, PrecisionRules
from repdl.dynamo import skip_dynamo
from repdl.errors import UnsupportedError
from repdl.registry import autocast as autocasts, functions
from repdl.registry.autograd import autograd_kernel, batching_rule, check_reverse_mode
from repdl.registry.backend import BACKENDS
from repdl.registry.named import Derivative, Gradients, by_name
from repdl.registry.op import OPS, IsSlope, Op
from repdl.registry.schema import declare, device_reader, register_fake
from repdl.registry.storage import formula_of_16_bit, of_any_storage
from repdl.tensors.overlap import check_apart

Function = Callable[..., Any]


def define(
    name: str,
    schema: str,
    *,
    check: Callable[..., None],
    fake: Callable[..., Any],
    check_values: Callable[..., ValueRange | None] | None = None,
    gradients: Gradients | None = None,
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
        check: raises for arguments outside the contract; runs before any kernel, fake ones too. It gets the arguments
            that its parameters name, and the name of the op as `op`; so do `check_values`, `fake` and `is_slope`.
        check_values: the same where the values of tensors decide; not run on fake tensors. Of those on a device it
            reads none: kernels look at their indices themselves (`ops/common/index.py`). Returns `ValueRange` bounds
            (`repdl.callcache`) if nothing else is asked of the values, `NOT_READ` if it has read none, else None.
        fake: returns empty outputs of the right shape and dtype.
        gradients: argument -> its gradient, a function of what its parameters name (`repdl.registry.named`).
        setup_context, backward: in their place, as in `torch.library.register_autograd`. Without a derivative
            the op is marked as not differentiable and a backward through it raises,
            unless its schema mutates its arguments.
        dtypes: the dtypes that the op takes, checked first. An implementation then sees
            float32 or float64 only: 16-bit storage is widened before it and rounded after it.
            None: `check` looks at dtypes itself, and implementations see what it lets through.
        autocast: what torch.autocast makes of the op, a list of `repdl.registry.autocast`; None: nothing.
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
        namespace: the one in `torch.ops`, and the import package of its files (`repdl.registry.families`).
        distribution: whose op it is. Outside projects pass their own, as with `namespace`.

    Raises:
        NameTakenError: if another project has an op or a family of that name: names are shared by all.
    """
    library, overload = declare(name, schema, family or name, namespace)
    host = frozenset(host)
    storage = None if dtypes is None else PrecisionRules(name, overload._schema, dtypes)
    arguments = overload._schema.arguments
    names = [argument.name for argument in arguments]
    check, fake = by_name(check, name, names), by_name(fake, name, names)
    check_values = None if check_values is None else by_name(check_values, name, names)
    is_slope = by_name(is_slope, name, names) if callable(is_slope) else is_slope
    if gradients is not None:
        derivative = Derivative(overload._schema, gradients)
        setup_context, backward = derivative.setup_context, derivative.backward
    written = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    if written:
        check = _checking_overlaps(overload, written, check)
    if formula is not None:
        BACKENDS.formulas[name] = torch.no_grad()(formula)
    device_of = device_reader(name, overload._schema, host)
    kernel = _kernel(overload, storage, device_of, check, check_values, written)
    library.impl(name, skip_dynamo(kernel), "CompositeExplicitAutograd")
    fake_kernel = _fake_kernel(name, storage, device_of, check, fake)
    register_fake(library, f"{namespace}::{name}", fake_kernel)
    differentiable = True if backward is not None else None if written or constant else False
    if constant:
        setup_context, backward = _constant_context, _no_gradients(len(arguments))
    elif differentiable is False:
        setup_context, backward = _no_context, _raising_backward(name)
    if backward is not None:
        is_whole = gradients is not None and len(gradients) == 1
        autograd = autograd_kernel(overload, kernel, setup_context, autocasts.without(backward), is_whole)
        library.impl(name, autograd, "Autograd", with_keyset=True)
        if not written:
            torch.library.register_vmap(overload, batching_rule(overload), lib=library)
    for device, dtype in (autocast or {}).items():
        library.impl(name, skip_dynamo(autocasts.kernel(overload, device, dtype)), autocasts.KEYS[device])
    whole = None if formula is None else of_any_storage(formula, storage)
    OPS[name] = Op(
        *(name, family or name, schema, check, fake, overload, distribution, storage, differentiable),
        *(whole, frozenset(calls), host, frozenset(fixed), is_slope),
    )
    return register_function(name, overload, cache_update if updates else None if written else cache_calls)


def register_function(name: str, overload: Any, cached: Callable[[Any], Function] | None) -> Function:
    """The function that calls an op, through the call cache unless `cached` is None, in `functions` too."""
    function = overload if cached is None else cached(overload)
    setattr(functions, name, function)
    return function


def _checking_overlaps(overload: Any, written: list[int], check: Callable[..., None]) -> Callable[..., None]:
    """`check`, and that each tensor that is written has memory of its own for each element."""
    name, arguments = overload._opname, overload._schema.arguments

    def check_written(*args: Any) -> None:
        check(*args)
        for index in written:
            check_apart(name, **{arguments[index].name: args[index]})

    return check_written


def _kernel(
    overload: Any,
    storage: PrecisionRules | None,
    device_of: Callable[[tuple[Any, ...]], str],
    check: Callable[..., None],
    check_values: Callable[..., ValueRange | None] | None,
    written: list[int],
) -> Function:
    """What computes an op on tensors with memory: all checks, then the implementation of a backend."""
    name = overload._opname
    lists = [i for i, argument in enumerate(overload._schema.arguments) if str(argument.type) == "List[Tensor]"]
    formula_16_bit = formula_of_16_bit(name, storage)
    floats, masks = ((), ()) if storage is None else (storage.floats, storage.bools)
    single, serve = torch.float32, BACKENDS.serve

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
        check(*args)
        if check_values is not None:
            record_check(check_values, args, check_values(*args))
        if dtype in FLOATS_16_BIT and storage is not None:
            implementation = formula_16_bit or serve(name, device, single)
            result = storage.run(implementation, serve("cast", device, single), args)
        else:
            result = serve(name, device, dtype)(*args)
        for index in written:  # kernels write through addresses, which autograd does not see
            if args[index] is not None:
                torch.autograd.graph.increment_version(args[index])
                record_change(args[index] if index in lists else (args[index],))
        return result

    return kernel


def _fake_kernel(
    name: str,
    storage: PrecisionRules | None,
    device_of: Callable[[tuple[Any, ...]], str],
    check: Callable[..., None],
    fake: Function,
) -> Function:
    """What computes an op on tensors without memory: the same checks but those of values."""

    def fake_kernel(*args: Any) -> Any:
        check_reverse_mode(name)
        device_of(args)
        if storage is not None:
            storage.check(args)
        check(*args)
        result = fake(*args)
        return result if storage is None else storage.outputs(args, result, _fake_cast)

    return fake_kernel


def _fake_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(tensor, dtype=dtype)


def _no_context(ctx: Any, inputs: Any, output: Any) -> None:
    pass


def _constant_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(*((output,) if isinstance(output, torch.Tensor) else output))


def _no_gradients(arguments: int) -> Callable[..., Any]:
    return lambda ctx, *grads: (None,) * arguments


def _raising_backward(name: str) -> Callable[..., Any]:
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        others = sorted(op.name for op in OPS.values() if op.differentiable is False and op.name != name)
        also = f", nor are {', '.join(others)}" if others else ""
        raise UnsupportedError(f"{name}: is not differentiable{also}; every other op is")

    return backward
