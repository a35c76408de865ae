"""Ops that are formulas over registered ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from repdl.callcache import ValueRange, cache_calls
from repdl.dtypes import Dtypes, PrecisionRules
from repdl.dynamo import skip_dynamo
from repdl.registry import autocast as autocasts
from repdl.registry.autograd import derivative_of_formula
from repdl.registry.define import define, register_function
from repdl.registry.named import Gradients, by_name
from repdl.registry.op import OPS, IsSlope, Op
from repdl.registry.schema import declare, device_reader
from repdl.registry.storage import of_any_storage


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
    gradients: Gradients | None = None,
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

    Derivatives, every backend and 16-bit storage follow from the formula, which calls registered ops and
    moves data, and sees float32 and float64 only: 16-bit floats are widened before it, and its result rounded.

    Args:
        calls: the names of the ops that the formula calls, beside `cast`.
        fake: as of `define`, of a formula that a backend may have a kernel for, or whose derivative is another. So is
            `check_values`, which only such a formula has.
        gradients, or setup_context and backward: as of `define`, of a formula whose derivative has an order of its own,
            which autograd would not give it, a sum over all steps, say.
        The others: as of `define`.

    Raises:
        NameTakenError: if another project has an op or a family of that name.
    """
    if fake is not None:
        if gradients is None and backward is None:
            setup_context, backward = derivative_of_formula(name)
        return define(
            *(name, schema),
            check=check,
            check_values=check_values,
            fake=fake,
            gradients=gradients,
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
    library, overload = declare(name, schema, family or name, namespace)
    host = frozenset(host)
    names = [argument.name for argument in overload._schema.arguments]
    check, is_slope = by_name(check, name, names), by_name(is_slope, name, names) if callable(is_slope) else is_slope
    device_of = device_reader(name, overload._schema, host)
    storage = PrecisionRules(name, overload._schema, dtypes)
    compute = of_any_storage(formula, storage)

    def run(*args: Any) -> Any:
        device_of(args)
        storage.check(args)
        check(*args)
        return compute(*args)

    library.impl(name, run, "CompositeImplicitAutograd")
    for device, lower in (autocast or {}).items():
        library.impl(name, skip_dynamo(autocasts.kernel(overload, device, lower)), autocasts.KEYS[device])
    OPS[name] = Op(
        *(name, family or name, schema, check, run, overload, distribution, storage, True, run),
        *(frozenset(calls), host, frozenset(fixed), is_slope),
    )
    return register_function(name, overload, cache_calls)
