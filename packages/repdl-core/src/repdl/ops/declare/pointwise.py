"""Pointwise ops: one rounding sequence an element, on operands that broadcast.

A new one is a function in the shared headers (`repdl/pointwise/`), a declaration in a module of its family, and a line
of its reference; both native backends have it then, forward and backward, and its text and cases follow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ANY_CONTRACT
from repdl.dtypes import Dtypes
from repdl.errors import check, check_size
from repdl.ops.common import sum_to
from repdl.ops.declare.expression import Call, Expression
from repdl.ops.declare.formula import Formula, Written, WrittenFormula, as_formula
from repdl.registry import DECLARATIONS, CaseSpec, Declaration, IsSlope, Lists, define
from repdl.registry.declaration import item
from repdl.registry.named import by_name
from repdl.registry.saved import save
from repdl.tensors import layout
from repdl.tensors.layout import broadcast_shapes

__all__ = ["POINTWISE", "Slope", "broadcast_shape", "check_broadcast", "pointwise"]

EVERY = Dtypes()
POINTWISE = {"cast", "pow"}
"""Names of ops that compute an element from those at its place alone, wherever that is; `pointwise` adds its own."""


@dataclass(frozen=True)
class Slope:
    """The derivative of an op of one tensor as an op of its own, `<name>_backward(grad, operand, options)`.

    It has the family, dtypes, checks and cases of the op. Its derivative by grad is itself.

    Attributes:
        order: its contract text.
        second: its derivative by the operand, as a derivative of `pointwise`; None: it has none.
        operand: input or output, which it is a function of.
    """

    order: str
    second: Callable[..., Any] | None = None
    operand: str = "input"


def pointwise(
    schema: str,
    derivative: Mapping[str, Callable[..., Any] | Written] | Slope,
    *,
    family: str,
    dtypes: Dtypes = EVERY,
    autocast: Lists | None = None,
    is_slope: IsSlope = True,
    same_shape: tuple[str, ...] = (),
    check_options: Callable[..., None] | None = None,
    check_values: Callable[..., None] | None = None,
    order: str = "",
    letters: Mapping[str, str] | None = None,
    cases: Sequence[tuple[Any, ...]] | CaseSpec = ((),),
    formula: Callable[..., Any] | None = None,
    calls: Sequence[str] = (),
) -> Callable[..., Any]:
    """Register a pointwise op and return its `torch.ops` overload.

    Args:
        schema: `name(Tensor input, ..., float option, ...) -> Tensor`. With several tensors it ends in
            `str contract`, the order in which the gradient of a broadcast operand is summed, unless
            `same_shape` says that the shapes must be equal.
        derivative: operand -> its gradient, as an expression (`repdl.ops.declare.expression`) or as `Written`;
            operands without one are `fixed`. A formula names what it takes: `g`, the gradient of the output, `y`, the
            output, `x`, the operand input, other operands and options. In the derivative of a derivative `h` is the
            gradient of the output, and `g` the operand grad. Or a `Slope`.
        family, dtypes, autocast, is_slope: as in `registry.define`.
        same_shape: of the op of a derivative: the operands, which do not broadcast, in the order in
            which their strides decide those of the output.
        check_options: raises for options, its arguments by name, that the op does not take.
        check_values: the same for values of tensors, with all arguments; not run on fake tensors.
        order: the contract text: every operation of an element, in order, each of one rounding. Without it
            the page of the family says it, and its module of cases has the cases.
        letters: other letters of formulas: what each is of the names above, operands and options.
        cases: several sets of values for the options, or a `CaseSpec`; empty: the
            module of the family has them all.
        formula, calls: of an op that is a formula of others and has no function in the headers, as in
            `registry.define`.
    """
    name, _, rest = schema.partition("(")
    POINTWISE.add(name)
    parameters = _parameters(rest)
    tensors = [i for i, (_, kind) in enumerate(parameters) if kind == "Tensor"]
    names = [parameter for parameter, _ in parameters]
    slope_of = derivative if isinstance(derivative, Slope) else None
    if isinstance(derivative, Slope):
        derivative = {"input": _call(name, "g", derivative.operand, names[1:])}
    lead = next(i for i in tensors if names[i] not in dtypes.bools)  # whose dtype and device the output has
    by_strides = [names.index(p) for p in same_shape] or tensors
    usual = {"x": "input", "h": "g", "g": "grad"} if "grad" in names else {"x": "input"}
    formulas = {p: as_formula(given, {**usual, **(letters or {})}) for p, given in derivative.items()}
    slopes = [(names.index(p), slope) for p, slope in formulas.items()]
    wanting = {p: [i for i, slope in slopes if p in slope.arguments] for p in (*names, "y")}
    kept = [(p, i) for i, p in enumerate(names) if i in tensors and wanting[p]]
    options = [(p, i) for i, p in enumerate(names) if i not in tensors]
    saved_names = [*(p for p, _ in kept), *(["y"] if wanting["y"] else [])]

    check_named = None if check_options is None else by_name(check_options, name, names)

    def check_arguments(*args: Any) -> None:
        if check_named is not None:
            check_named(*args)
        shape = args[tensors[0]].shape
        for i in tensors[1:]:
            if args[i].shape != shape:
                shapes = {names[j]: args[j] for j in tensors}
                _check_equal(name, shapes) if same_shape else broadcast_shape(name, **shapes)

    def fake(*args: Any) -> Tensor:
        return layout.pointwise(*(args[i] for i in by_strides)).empty(args[lead])

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shapes = [inputs[i].shape for i, _ in slopes]
        ctx.options = {p: inputs[i] for p, i in options}
        if saved_names:
            known = (*(inputs[i] for _, i in kept), output)
            save(ctx, *((tensor, wanting[p]) for tensor, p in zip(known, saved_names)))

    def derive(ctx: Any, grad: Tensor) -> Any:
        known = {"g": grad, **ctx.options}
        if saved_names:
            known.update(zip(saved_names, ctx.saved_tensors))
        grads: list[Any] = [None] * len(names)
        needed, contract = ctx.needs_input_grad, known.get("contract", ANY_CONTRACT)
        for (i, slope), shape in zip(slopes, ctx.shapes):
            if needed[i]:
                result = slope(known)
                grads[i] = result if result.shape == shape else sum_to(result, shape, contract)
        return tuple(grads) if len(grads) > 1 else grads[0]

    if order:
        listed = ", ".join(names)
        DECLARATIONS[name] = Declaration(
            item(f"{name}({listed}) -> output", order, _said([names[i] for i in tensors], formulas)),
            cases
            if isinstance(cases, CaseSpec)
            else CaseSpec("pointwise", {"tensors": len(tensors), "option_sets": cases, "same_shape": bool(same_shape)}),
        )
    op = define(
        name,
        f"({rest}",
        family=family,
        check=check_arguments,
        check_values=check_values,
        fake=fake,
        setup_context=setup_context if derivative else None,
        backward=derive if derivative else None,
        dtypes=dtypes,
        autocast=autocast,
        formula=formula,
        calls=calls,
        fixed=(names[i] for i in tensors if names[i] not in derivative),
        is_slope=is_slope,
    )
    if slope_of is not None:
        operand = slope_of.operand
        twice = {"grad": _call(name, "h", operand, names[1:])}
        pointwise(
            f"{name}_backward(Tensor grad, Tensor {operand}{rest.removeprefix('Tensor input')}",
            twice if slope_of.second is None else {**twice, "input": slope_of.second},
            family=family,
            dtypes=dtypes,
            same_shape=("grad", "input") if operand == "input" else ("output", "grad"),  # as torch
            check_options=check_options,
            order=slope_of.order,
            cases=cases,
        )
    return op


def _call(op: str, gradient: str, operand: str, options: Sequence[str]) -> Callable[..., Expression]:
    """The expression `<op>_backward(gradient, operand, *options)`."""
    letters = gradient, {"input": "x", "output": "y" if gradient == "g" else "output"}[operand], *options

    def call(*symbols: Expression) -> Expression:
        return Call(f"{op}_backward", *symbols)

    parameters = [inspect.Parameter(letter, inspect.Parameter.POSITIONAL_OR_KEYWORD) for letter in letters]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _said(operands: Sequence[str], formulas: Mapping[str, Formula | WrittenFormula]) -> str:
    """The text of the derivatives."""
    texts = {p: slope.text for p, slope in formulas.items()}
    if "grad" in operands:
        fixed = [p for p in operands if p not in texts]
        none = f", for {' and '.join(fixed)} none" if fixed else ""
        return "; ".join(f"for {p} {text}" for p, text in texts.items()) + none
    *all_but_last, last = formulas.values()
    if all_but_last and last.plain and all(s.plain and s.definitions == last.definitions for s in all_but_last):
        return f"{', '.join(s.plain for s in all_but_last)} and {last.text}"
    return "; ".join(text if i == 0 else f"for {p} {text}" for i, (p, text) in enumerate(texts.items()))


def _parameters(rest: str) -> list[tuple[str, str]]:
    """Name and type of the parameters, from a schema without its name."""
    inside = rest.partition(")")[0]
    return [(part.split("=")[0].split()[-1], part.split()[0]) for part in inside.split(", ")]


def _check_equal(op: str, tensors: Mapping[str, Tensor]) -> None:
    (first, leader), *others = tensors.items()
    for name, tensor in others:
        check_size(op, f"{name}.shape", tensor.shape, leader.shape, f"{first}.shape")


def check_broadcast(op: str, **tensors: Tensor) -> None:
    """Raise unless the tensors broadcast."""
    broadcast_shape(op, **tensors)


def broadcast_shape(op: str, **tensors: Tensor) -> torch.Size:
    """The shape that the tensors broadcast to; raises ShapeError if they do not."""
    try:
        return broadcast_shapes(*(t.shape for t in tensors.values()))
    except RuntimeError:
        shapes = ", ".join(f"{name}.shape is {tuple(t.shape)}" for name, t in tensors.items())
        check(op, False, lambda: f"{shapes}; expected shapes that broadcast (equal sizes, or 1, from the right)")
        raise
