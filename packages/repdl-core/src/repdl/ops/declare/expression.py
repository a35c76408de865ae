"""Formulas over registered ops, written once: an expression prints itself as contract text, and it is computed.

A declaration has `lambda g, x: -(g * f.rsqrt(1 - x * x))`. It is called once, with symbols. Operators and `f`, whose
attributes are the registered ops, give a tree of the classes below. Its text is `-(g * rsqrt(1 - x * x))`.
`repdl.ops.declare.formula` computes it: it calls `mul`, `sub`, `rsqrt`, `mul` and `neg`, in the order in which Python
ran the lambda. A part that a formula has twice, as one Python object, is computed once.

    f.exp(x)                  calls the op `exp`; the contract is the one of the call
    2 * x                     a number is a constant, rounded once to the dtype of the tensors
    f.where(x > 0, a, b)      `<` and `>` compare any two; `==`, `!=`, `<=` and `>=` compare with an integer
    named("s", f.sigmoid(x))  a part that the text defines: "`s * (1 - s)`, s = `sigmoid(x)`"
    Number(0.69, "ln 2")      a constant whose text is not its digits
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Protocol

import torch

from repdl.ops.common import greater_than, is_related, less_than
from repdl.registry import OPS, functions

__all__ = [
    "INFINITY",
    "LN_2",
    "PI",
    "Call",
    "Computed",
    "Expression",
    "Number",
    "Term",
    "choose",
    "expanded",
    "f",
    "guarded",
    "named",
]

_SUM, _PRODUCT, _MINUS, _ATOM = range(4)
"""How strongly the parts of a text hold together."""
_INFIX = {"add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "div": ("/", _PRODUCT)}
_NODES = count()


class Slots(Protocol):
    """Where the values of a formula are while it is computed, by index (`repdl.ops.declare.formula`)."""

    like: int
    contract: int

    def of(self, node: Expression) -> int:
        """The value of a node: a tensor or, of an option, a number."""

    def tensor(self, node: Expression) -> int:
        """The same as a tensor."""

    def number(self, node: Expression, kind: str) -> int:
        """The same as an op's argument of another kind, as schemas spell it."""


class Expression:
    """A part of a formula."""

    level = _ATOM
    letter = ""
    parts: tuple[Expression, ...] = ()
    ops: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.made = next(_NODES)

    def step(self, slots: Slots) -> tuple[Callable[..., Any], tuple[int, ...]]:
        """The function that computes the node, and its arguments."""
        raise NotImplementedError

    def spelled(self) -> str:
        """The text of the node itself."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The letter of a named part, else its formula."""
        return self.letter or self.spelled()

    def within(self, level: int) -> str:
        """The text as a part of one of that level."""
        return f"({self.text})" if self.level <= level and not self.letter else self.text

    def all_parts(self) -> Iterator[Expression]:
        """The node and what it is made of, in the order of the text."""
        yield self
        for part in self.parts:
            yield from part.all_parts()

    def __add__(self, other: Term) -> Expression:
        return Call("add", self, other)

    def __radd__(self, other: Term) -> Expression:
        return Call("add", other, self)

    def __sub__(self, other: Term) -> Expression:
        return Call("sub", self, other)

    def __rsub__(self, other: Term) -> Expression:
        return Call("sub", other, self)

    def __mul__(self, other: Term) -> Expression:
        return Call("mul", self, other)

    def __rmul__(self, other: Term) -> Expression:
        return Call("mul", other, self)

    def __truediv__(self, other: Term) -> Expression:
        return Call("div", self, other)

    def __rtruediv__(self, other: Term) -> Expression:
        return Call("div", other, self)

    def __neg__(self) -> Expression:
        return Call("neg", self)

    def __lt__(self, other: Term) -> Expression:
        return _Comparison(self, "<", other)

    def __gt__(self, other: Term) -> Expression:
        return _Comparison(self, ">", other)

    def __le__(self, other: Term) -> Expression:
        return _Comparison(self, "<=", other)

    def __ge__(self, other: Term) -> Expression:
        return _Comparison(self, ">=", other)

    def __eq__(self, other: Term) -> Expression:  # type: ignore[override]
        return _Comparison(self, "==", other)

    def __ne__(self, other: Term) -> Expression:  # type: ignore[override]
        return _Comparison(self, "!=", other)

    def __and__(self, other: Expression) -> Expression:
        return _Both(self, other)

    def __bool__(self) -> bool:
        raise TypeError("an expression is neither true nor false; write `&`, or `choose` for an option")

    __hash__ = object.__hash__


Term = Expression | float


class Symbol(Expression):
    """An argument of the op, its output, or the gradient of that."""

    def __init__(self, letter: str) -> None:
        super().__init__()
        self.letter = letter


class Number(Expression):
    """A constant, of the text `text` or its digits."""

    def __init__(self, value: float, text: str = "") -> None:
        super().__init__()
        self.value, self.given = value, text
        self.level = _PRODUCT if re.search(r" [*/] ", re.sub(r"\(.*\)", "", text)) else _ATOM

    def spelled(self) -> str:
        whole = math.isfinite(self.value) and self.value == int(self.value)
        return self.given or (str(int(self.value)) if whole else repr(self.value))


INFINITY, PI = Number(math.inf, "inf"), Number(math.pi, "pi")
LN_2 = Number(0.6931471805599453, "ln 2")


class Computed(Expression):
    """A number that `function` makes of an option, in Python; the text of the op's order says how."""

    def __init__(self, letter: str, function: Callable[[Any], float], option: Expression) -> None:
        super().__init__()
        self.letter, self.function, self.parts = letter, function, (option,)

    def step(self, slots: Slots) -> tuple[Callable[..., Any], tuple[int, ...]]:
        return self.function, (slots.of(self.parts[0]),)


class Call(Expression):
    """A call of a registered op, with its arguments but the contract."""

    def __init__(self, op: str, *arguments: Term) -> None:
        super().__init__()
        self.op, self.parts, self.ops = op, tuple(map(expression, arguments)), (op,)
        self.level = _MINUS if op == "neg" else _INFIX[op][1] if op in _INFIX else _ATOM

    def step(self, slots: Slots) -> tuple[Callable[..., Any], tuple[int, ...]]:
        function, given, arguments = getattr(functions, self.op), iter(self.parts), []
        for argument in OPS[self.op].overload._schema.arguments:
            kind = str(argument.type)
            if argument.name == "contract":
                arguments.append(slots.contract)
            elif kind == "Tensor":
                arguments.append(slots.tensor(next(given)))
            else:
                arguments.append(slots.number(next(given), kind))
        assert next(given, None) is None, f"{self.op}: too many arguments in {self.text}"
        return function, tuple(arguments)

    def spelled(self) -> str:
        if self.op in _INFIX:
            left, right = (part.within(self.level) for part in self.parts)
            return f"{left} {_INFIX[self.op][0]} {right}"
        if self.op == "neg":
            return f"-{self.parts[0].within(_MINUS)}"
        return f"{self.op}({', '.join(part.text for part in self.parts)})"


class _Guarded(Call):
    def __init__(self, condition: Expression, x: Expression, instead: float) -> None:
        super().__init__("where", condition, instead, x)

    def spelled(self) -> str:
        return self.parts[2].text

    def within(self, level: int) -> str:
        return self.parts[2].within(level)


class _Comparison(Expression):
    level = _SUM

    def __init__(self, left: Expression, relation: str, right: Term) -> None:
        super().__init__()
        self.relation, self.parts = relation, (left, expression(right))
        number = self.parts[1]
        if isinstance(number, Number):
            self.ops = ("sign",) if number.value == 0 and relation in ("<", ">") else ()
            # A normal number of few bits is the same in every dtype, and in a thread that flushes subnormal ones.
            assert float(number.value).is_integer(), f"{self.text}: expected an integer, or compare with an option"
        else:
            self.ops = ("sign", "sub")
            assert relation in ("<", ">"), f"{self.text}: expected < or >"

    def step(self, slots: Slots) -> tuple[Callable[..., Any], tuple[int, ...]]:
        left, right = self.parts
        relation = self.relation
        if isinstance(right, Number):
            value = right.value
            return (lambda x: is_related(x, relation, value)), (slots.of(left),)
        return less_than if relation == "<" else greater_than, (slots.tensor(left), slots.tensor(right), slots.contract)

    def spelled(self) -> str:
        left, right = (part.text for part in self.parts)
        return f"{left} {'=' if self.relation == '==' else self.relation} {right}"


class _Both(Expression):
    level = _SUM

    def __init__(self, first: Expression, second: Expression) -> None:
        super().__init__()
        self.parts = first, second

    def step(self, slots: Slots) -> tuple[Callable[..., Any], tuple[int, ...]]:
        return torch.Tensor.logical_and, (slots.of(self.parts[0]), slots.of(self.parts[1]))

    def spelled(self) -> str:
        first, second = self.parts
        relations = [part.relation for part in self.parts if isinstance(part, _Comparison)]
        if relations == [">", "<"] and first.parts[0] is second.parts[0]:
            return f"{first.parts[1].text} < {second.text}"
        return f"{first.text} and {second.text}"


class _Expanded(Expression):
    def __init__(self, x: Expression) -> None:
        super().__init__()
        self.parts = (x,)

    def step(self, slots: Slots) -> tuple[Callable[..., Any], tuple[int, ...]]:
        return (lambda x, like: x.detach().expand(like.shape)), (slots.of(self.parts[0]), slots.like)

    def spelled(self) -> str:
        return self.parts[0].text

    def within(self, level: int) -> str:
        return self.parts[0].within(level)


class Choice(Expression):
    """One formula for each value of an option."""

    def __init__(self, option: Expression, formulas: Mapping[Any, Term]) -> None:
        super().__init__()
        self.option = option
        self.formulas = {value: expression(formula) for value, formula in formulas.items()}
        self.parts = tuple(self.formulas.values())

    def spelled(self) -> str:
        return words(self)


class _Ops:
    """The registered ops, as functions of expressions: those of an op that is registered later, too."""

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: Call(name, *arguments)


f = _Ops()


def expression(value: Term) -> Expression:
    return value if isinstance(value, Expression) else Number(value)


def named(letter: str, part: Expression) -> Expression:
    """A part that has a letter in the text, which says after the formula what it is."""
    part.letter = letter
    return part


def choose(option: Expression, formulas: Mapping[Any, Term]) -> Expression:
    """The formula of the option's value: a whole formula, no part of one."""
    return Choice(option, formulas)


def guarded(condition: Expression, x: Expression, instead: float = 1.0) -> Expression:
    """x, but `instead` where the condition holds. The text is that of x: a `where` around it does not take these."""
    return _Guarded(condition, x, instead)


def expanded(x: Expression) -> Expression:
    """x with the shape of the gradient, for an op without broadcasting, which takes it as a constant."""
    return _Expanded(x)


def words(root: Expression) -> str:
    """A formula as contract texts have it: "`a` where x > 0, else `b`, a = `exp(x)`"."""
    if isinstance(root, Choice):
        option = root.option.text
        if root.formulas.keys() == {False, True}:
            return f"{words(root.formulas[False])}; with {option} {words(root.formulas[True])}"
        return "; ".join(f"with {option} = {value} {words(formula)}" for value, formula in root.formulas.items())
    if not (isinstance(root, Call) and root.op == "where" and not isinstance(root.parts[0], Symbol)):
        return quoted(root) + definitions(root)
    condition, first, second = root.parts
    if isinstance(first, Number) and first.value == 0:
        return f"{quoted(second)}{definitions(root)}, +0 where {condition.text}"
    return f"{quoted(first)} where {condition.text}, else {quoted(second)}{definitions(root)}"


def quoted(node: Expression) -> str:
    """The text of a formula, in the marks of Markdown unless it is a letter or a number."""
    if isinstance(node, Number):
        return "+0" if node.value == 0 else node.text
    return node.text if isinstance(node, Symbol) else f"`{node.text}`"


def definitions(root: Expression) -> str:
    """What the letters in a formula are, and those in these."""
    found: dict[str, str] = {}
    for node in root.all_parts():
        if node.letter and not isinstance(node, (Symbol, Computed)):
            text = node.spelled()
            assert found.setdefault(node.letter, text) == text, f"two parts are named {node.letter}"
    return "".join(f", {letter} = `{text}`" for letter, text in found.items())
