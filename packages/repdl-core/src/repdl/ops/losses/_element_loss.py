"""What the losses of elements share: the reduction, and how one is registered."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.dtypes import Dtypes
from repdl.errors import check_one_of
from repdl.ops.common import constant, floating
from repdl.ops.declare import Written, as_formula, broadcast_shape
from repdl.ops.losses._loss import REDUCTIONS
from repdl.ops.pointwise.elementwise import promoted
from repdl.registry import DECLARATIONS, FLOAT32, CaseSpec, Declaration, IsSlope, Lists, composite, functions as _ops
from repdl.registry.declaration import item
from repdl.registry.named import by_name


def scalar(value: float, like: Tensor) -> Tensor:
    return constant(value, like.dtype, like.device)


def reduced(losses: Tensor, reduction: str, contract: str, total_of: Callable[..., Tensor] = _ops.sum) -> Tensor:
    """All losses, their sum, that divided by their number, or, batchmean, by that of the rows.

    Args:
        total_of: takes their sum, as `sum` does.
    """
    if reduction == "none":
        return losses
    total = total_of(losses, list(range(losses.dim())), False, contract)
    if reduction == "sum" or (reduction == "batchmean" and losses.dim() == 0):
        return total
    count = losses.shape[0] if reduction == "batchmean" else losses.numel()
    return _ops.div(total, scalar(count, total), contract)


def element_loss(
    schema: str,
    formula: Callable[..., Any] | Written,
    *,
    dtypes: Dtypes = Dtypes(),  # noqa: B008, it is frozen
    reductions: tuple[str, ...] = REDUCTIONS,
    calls: str = "",
    check: Callable[..., None] | None = None,
    cases: Sequence[tuple[Any, ...]] | CaseSpec = ((),),
    operands: tuple[str, ...] = ("any", "any"),
    autocast: Lists = FLOAT32,
    fixed: tuple[str, ...] = (),
    is_slope: IsSlope = True,
) -> Callable[..., Any]:
    """Register `name(Tensor input, Tensor target, ..., str reduction, str contract)`, reduced after the formula.

    Args:
        schema, dtypes, autocast, fixed, is_slope: as of `registry.composite`.
        formula: an expression (`repdl.ops.declare.expression`) of x, the input, y, the target, other tensors and
            options, whose text is that of the contract; or `Written`, with `calls`, the ops that it calls.
        check: raises for shapes, arguments by name; without it all tensors broadcast.
        cases: several sets of values for the options, or a `CaseSpec`.
        operands: what the tensors of cases hold (`repdl.testing.generated.loss_cases`).
    """
    name, _, rest = schema.partition("(")
    names = [part.split()[-1] for part in rest.partition(")")[0].split(", ")]
    stated = as_formula(formula, {"x": "input", "y": "target", "c": "contract"})
    squared = stated.argument_of("square")  # whose squares a reduction sums without storing them

    check_shapes = None if check is None else by_name(check, name, names)

    def check_arguments(*args: Any) -> None:
        if check_shapes is not None:
            check_shapes(*args)
        else:
            broadcast_shape(name, **{n: a for n, a in zip(names, args) if isinstance(a, Tensor)})
        check_one_of(name, reductions, reduction=args[-2])

    def run(*args: Any) -> Tensor:
        *_, reduction, contract = args
        if squared is not None and reduction != "none":
            return reduced(squared(dict(zip(names, args))), reduction, contract, _ops.sum_of_squares)
        return reduced(stated(dict(zip(names, args))), reduction, contract)

    DECLARATIONS[name] = Declaration(
        item(f"{name}({', '.join(names)}) -> loss", stated.text),
        cases if isinstance(cases, CaseSpec) else CaseSpec("loss", {"option_sets": cases, "operands": operands}),
    )
    return composite(
        name,
        f"({rest}",
        run,
        calls=(*calls.split(), *stated.calls, "sum" if squared is None else "sum_of_squares", "div"),
        check=check_arguments,
        dtypes=dtypes,
        autocast=autocast,
        fixed=fixed,
        is_slope=is_slope,
        family="losses",
    )


def operands(op: str, **tensors: Tensor) -> list[Tensor]:
    """The tensors in the dtype that torch promotes them to, as targets that are integers."""
    found = promoted(op, divides=True, **tensors)
    assert found is not None
    return found


def with_target(op: str, target: Tensor, **inputs: Tensor) -> list[Tensor]:
    """The inputs as `operands`, then the target, which torch converts to their dtype in these losses.

    Under autocast, which widens all of them, it stays as it is.
    """
    found = operands(op, **inputs)
    widened = torch.is_autocast_enabled(found[0].device.type)
    if isinstance(target, Tensor) and not target.is_complex() and not widened:
        target = floating(target, found[0].dtype)
    return operands(op, **dict(zip(inputs, found)), target=target)


def check_sized(op: str, input: Tensor, target: Tensor) -> None:
    """torch's warning, where a target of another size broadcasts."""
    if input.shape != target.shape:
        warnings.warn(
            f"{op}: target.shape is {tuple(target.shape)}, input.shape {tuple(input.shape)}: they broadcast, which "
            f"is seldom meant; expected the same shape",
            stacklevel=3,
        )
