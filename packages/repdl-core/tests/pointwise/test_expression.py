"""Expressions: their text, and the ops that they call."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repdl.ops.declare.expression import (
    INFINITY,
    Call,
    Computed,
    Expression,
    Number,
    Symbol,
    choose,
    expanded,
    expression,
    f,
    guarded,
    named,
)
from repdl.ops.declare.formula import Formula, Written, as_formula
from repdl.testing import assert_same_bits

TENSOR = torch.tensor([-1.5, 0.0, 0.25, 3.0])


class Recorder(TorchDispatchMode):
    """The registered ops that are called, in order, with the arguments that are no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "repdl":
            self.calls.append((func._opname, *(str(a) for a in args if not isinstance(a, torch.Tensor))))
        return func(*args, **(kwargs or {}))


def called(function: Callable[..., Any], **known: Any) -> list[tuple[str, ...]]:
    formula = Formula(function, {})
    formula(known)
    with Recorder() as recorder:
        formula(known)
    return recorder.calls


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda g, x: -(g * f.rsqrt(1 - x * x)), "`-(g * rsqrt(1 - x * x))`"),
        (lambda g, x: (g * x) * x, "`(g * x) * x`"),
        (lambda g, x: g * (x * x), "`g * (x * x)`"),
        (lambda g, x: (g + x) - 1, "`(g + x) - 1`"),
        (lambda g, x: g / (x + x), "`g / (x + x)`"),
        (lambda g, x: -x * g, "`-x * g`"),
        (lambda g, x: -(-x), "`-(-x)`"),  # noqa: B002
        (lambda g, x: (g * -0.5) * 6.0, "`(g * -0.5) * 6`"),
        (lambda g, x: x * Number(0.69, "ln 2"), "`x * ln 2`"),
        (lambda g, x: x * Number(1.13, "2 / sqrt(pi)"), "`x * (2 / sqrt(pi))`"),
        (lambda g, x: x * Number(0.8, "sqrt(2 / pi)"), "`x * sqrt(2 / pi)`"),
        (lambda g: g, "g"),
        (lambda g: 0, "+0"),
        (lambda g, x: f.clamp(x, 0, INFINITY), "`clamp(x, 0, inf)`"),
        (lambda g, x: f.where(x > 0, g, g * x), "g where x > 0, else `g * x`"),
        (lambda g, x: f.where(x > 0, 0, g * x), "`g * x`, +0 where x > 0"),
        (lambda g, x: f.where((x > -3) & (x < 3), g / 6, 0), "`g / 6` where -3 < x < 3, else +0"),
        (lambda g, x: f.where((x == 0) & (g <= 0), 0, x), "x, +0 where x = 0 and g <= 0"),
        (lambda g, x: f.where(x == 0, 0, g / guarded(x == 0, x)), "`g / x`, +0 where x = 0"),
        (lambda g, c: f.where(c, g, 0), "`where(c, g, 0)`"),
        (lambda g, x: 2 * f.where(x > 0, g, 1), "`2 * where(x > 0, g, 1)`"),
        (lambda g, w: g * Computed("r", float, w), "`g * r`"),
        (lambda g, x: f.maximum_backward(g, expanded(x), expanded(g)), "`maximum_backward(g, x, g)`"),
    ],
)
def test_expression__text(function: Callable[..., Any], text: str) -> None:
    assert Formula(function, {}).text == text


def test_expression__text_of_named_parts() -> None:
    def function(g: Expression, x: Expression) -> Expression:
        z = named("z", x * 2)
        s = named("s", f.sigmoid(z))
        return f.where(z > 1, 0, g * (s * (1 - s)))

    formula = Formula(function, {})
    assert formula.text == "`g * (s * (1 - s))`, z = `x * 2`, s = `sigmoid(z)`, +0 where z > 1"
    with pytest.raises(AssertionError, match="two parts are named s"):
        Formula(lambda g, x: named("s", g * x) + named("s", g + x), {})


def random_expression(draw: random.Random, depth: int) -> Expression:
    if depth == 0 or draw.random() < 0.2:
        return expression(draw.choice([Symbol("x"), Symbol("g"), 2, 0.5]))
    op = draw.choice(["add", "sub", "mul", "div", "neg", "exp"])
    arguments = [random_expression(draw, depth - 1) for _ in range(1 if op in ("neg", "exp") else 2)]
    return Call(op, *arguments)


def structure(node: Expression) -> str:
    """Of an expression all that is computed."""
    if isinstance(node, Call):
        return f"{node.op}({', '.join(map(structure, node.parts))})"
    return node.text


def test_expression__text_has_one_reading() -> None:
    """Python reads the text as the expression that printed it."""
    draw = random.Random(0)
    names = {"x": Symbol("x"), "g": Symbol("g"), "exp": f.exp}
    for _ in range(500):
        node = Call("mul", random_expression(draw, 4), Symbol("x"))
        read = eval(node.text.replace("2", "Number(2)").replace("0.5", "Number(0.5)"), {"Number": Number, **names})
        assert structure(read) == structure(node), node.text


def test_formula__calls_in_the_order_of_the_lambda() -> None:
    calls = called(lambda g, x: -(g * f.rsqrt(2 - x * x)), g=TENSOR, x=TENSOR, contract="sequential")
    assert calls == [("mul", "sequential"), ("sub", "sequential"), ("rsqrt",), ("mul", "sequential"), ("neg",)]

    def parts_first(g: Expression, x: Expression) -> Expression:
        a, b = f.exp(x), f.sin(x)
        return b * a

    assert [op for op, *_ in called(parts_first, g=TENSOR, x=TENSOR)] == ["exp", "sin", "mul"]


def test_formula__computes_a_part_as_often_as_it_is_made() -> None:
    def once(g: Expression, x: Expression) -> Expression:
        square = x * x
        return square + square

    assert [op for op, *_ in called(once, g=TENSOR, x=TENSOR)] == ["mul", "add"]
    assert [op for op, *_ in called(lambda g, x: x * x + x * x, g=TENSOR, x=TENSOR)] == ["mul", "mul", "add"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_formula__constants_have_the_dtype_of_the_tensors(dtype: torch.dtype) -> None:
    x = TENSOR.to(dtype)
    found = Formula(lambda g, x, w: (g * 0.1) * w, {})({"g": x, "x": x, "w": 0.3})
    constants = [torch.tensor(value, dtype=torch.float64).to(dtype) for value in (0.1, 0.3)]
    assert_same_bits(found, (x * constants[0]) * constants[1])


def test_formula__options() -> None:
    formula = Formula(lambda x, full: choose(full, {False: x + 1, True: x + 2}), {})
    assert formula.text == "`x + 1`; with full `x + 2`"
    assert_same_bits(formula({"x": TENSOR, "full": True}), TENSOR + 2)
    assert_same_bits(formula({"x": TENSOR, "full": False}), TENSOR + 1)
    kinds = Formula(lambda x, kind: choose(kind, {"a": x, "b": -x}), {})
    assert kinds.text == "with kind = a x; with kind = b `-x`"
    assert_same_bits(kinds({"x": TENSOR, "kind": "b"}), -TENSOR)


@pytest.mark.parametrize("relation", ["<", ">", "<=", ">=", "==", "!="])
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("bound", [0, 3])
def test_formula__comparisons_in_any_environment(relation: str, flush: bool, bound: int) -> None:
    """A subnormal number is not 0, though torch's comparison may take it for 0."""
    x = torch.tensor([1e-40, -1e-40, 0.0, -0.0, 3.0, -3.0, 4.0, float("nan"), float("inf"), -float("inf")])
    expected = torch.tensor([eval(f"v {relation} {bound}") for v in x.tolist()])
    formula = Formula(lambda x: f.where(eval(f"x {relation} {bound}"), 1, 2), {})
    try:
        assert torch.set_flush_denormal(flush)
        found = formula({"x": x})
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(found, torch.where(expected, 1.0, 2.0))


def test_formula__calls_are_those_that_are_named() -> None:
    formula = Formula(lambda x, y, d: f.where(x < d, f.exp(x), 0) + f.where(y > 0, 1, y), {})
    known = {"x": TENSOR, "y": TENSOR, "d": 0.3}
    formula(known)
    with Recorder() as recorder:
        formula(known)
    assert {op for op, *_ in recorder.calls} == formula.calls == {"where", "exp", "add", "sign", "sub"}


def test_formula__letters_are_arguments() -> None:
    formula = Formula(lambda h, g, x: h * (g + x), {"h": "g", "g": "grad", "x": "input"})
    assert formula.arguments == ("g", "grad", "input")
    known = {"g": TENSOR, "grad": TENSOR + 1, "input": TENSOR + 2}
    assert_same_bits(formula(known), TENSOR * ((TENSOR + 1) + (TENSOR + 2)))


def test_formula__written() -> None:
    formula = as_formula(Written(lambda g, c: g if c == "v1" else -g, "g or not"), {"c": "contract"})
    assert (formula.text, formula.arguments) == ("g or not", ("g", "contract"))
    assert_same_bits(formula({"g": TENSOR, "contract": "sequential"}), -TENSOR)


def test_expression__mistakes() -> None:
    x, y = Symbol("x"), Symbol("y")
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(x > 0)
    with pytest.raises(AssertionError, match="expected < or >"):
        x == y  # noqa: B015
    with pytest.raises(AssertionError, match="expected an integer"):
        x > 0.1  # noqa: B015
    with pytest.raises(AssertionError, match="too many arguments"):
        Formula(lambda x: f.exp(x, x), {})({"x": TENSOR})
    with pytest.raises(AttributeError, match="no_such_op"):
        f.no_such_op(x).step(None)  # type: ignore[arg-type]
