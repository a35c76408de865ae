"""Formulas of a declaration: an expression, computed by registered ops, or a Python function with its text."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ANY_CONTRACT
from repdl.ops.common import constant
from repdl.ops.declare.expression import (
    Call,
    Choice,
    Computed,
    Expression,
    Number,
    Symbol,
    definitions,
    expression,
    quoted,
    words,
)

__all__ = ["Formula", "Written", "as_formula"]


@dataclass(frozen=True)
class Written:
    """A formula for which expressions have no words: a function of tensors and options, and its text."""

    function: Callable[..., Any]
    text: str


class Formula:
    """A formula that is an expression.

    Args:
        function: a function of symbols, the first of which is a tensor.
        letters: parameter of the function -> argument of the op, where they differ.
    """

    def __init__(self, function: Callable[..., Any], letters: Mapping[str, str]) -> None:
        self.parameters = tuple(inspect.signature(function).parameters)
        self.arguments = tuple(letters.get(p, p) for p in self.parameters)
        self._symbols = tuple(map(Symbol, self.parameters))
        self._root = expression(function(*self._symbols))
        self.text = words(self._root)
        self.plain = quoted(self._root) if self.text == quoted(self._root) + definitions(self._root) else ""
        """The text of a formula without other words, but for the definitions."""
        self.definitions = definitions(self._root)
        self.calls = frozenset(op for node in self._root.all_parts() for op in node.ops)
        self._programs: dict[Any, _Program] = {}

    def argument_of(self, op: str) -> Formula | None:
        """What it calls an op of one tensor of, last, as a formula; None if it ends in another op."""
        if not isinstance(self._root, Call) or self._root.op != op:
            return None
        (argument,) = self._root.parts
        found = copy.copy(self)
        found._root, found._programs = argument, {}
        return found

    def __call__(self, known: Mapping[str, Any]) -> Tensor:
        """Its value.

        Args:
            known: argument -> value. Ops that have an order are called under the contract among them.
        """
        values = [known[argument] for argument in self.arguments]
        root, case = self._root, None
        if isinstance(root, Choice):
            case = values[self.parameters.index(root.option.letter)]
        program = self._programs.get(case)
        if program is None:  # at the first call: all ops are registered
            chosen = root.formulas[case] if isinstance(root, Choice) else root
            program = self._programs[case] = _Program(chosen, self._symbols, values)
        return program(known.get("contract", ANY_CONTRACT), values)


class WrittenFormula:
    """A formula that is a Python function, with the interface of `Formula`."""

    plain = definitions = ""
    calls: frozenset[str] = frozenset()

    def argument_of(self, op: str) -> None:
        """Nothing: what it ends in is not known."""

    def __init__(self, written: Written, letters: Mapping[str, str]) -> None:
        self.parameters = tuple(inspect.signature(written.function).parameters)
        self.arguments = tuple(letters.get(p, p) for p in self.parameters)
        self.text, self._function = written.text, written.function

    def __call__(self, known: Mapping[str, Any]) -> Tensor:
        return self._function(*[known[argument] for argument in self.arguments])


def as_formula(given: Callable[..., Any] | Written, letters: Mapping[str, str]) -> Formula | WrittenFormula:
    return WrittenFormula(given, letters) if isinstance(given, Written) else Formula(given, letters)


class _Program:
    """An expression as calls, in the order in which Python made its nodes.

    The values are in a list: the contract, the arguments, the numbers, then what each call gives. The last are dropped
    after their last use.
    """

    contract, like = 0, 1

    def __init__(self, root: Expression, symbols: Sequence[Symbol], values: Sequence[Any]) -> None:
        nodes = sorted(set(root.all_parts()), key=lambda node: node.made)
        numbers = [node for node in nodes if isinstance(node, Number)]
        self._slots: dict[Expression, int] = {node: 1 + i for i, node in enumerate((*symbols, *numbers))}
        self._options = {*numbers, *(node for node in nodes if isinstance(node, Computed))}
        self._constants: dict[Expression, int] = {}
        self._options |= {symbol for symbol, value in zip(symbols, values) if not isinstance(value, Tensor)}
        self._first_number = 1 + len(symbols)
        self._numbers: list[float] = [number.value for number in numbers]
        self._calls: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
        for node in nodes:
            if node not in self._slots:
                self._slots[node] = self._add(*node.step(self))
        if isinstance(root, Number):
            assert root.value == 0, f"{root.text}: expected 0, or a formula"
            self._slots[root] = self._add(torch.zeros_like, (self.like,))
        self._result = self._slots[root]
        self._steps = self._with_last_uses()

    def of(self, node: Expression) -> int:
        return self._slots[node]

    def tensor(self, node: Expression) -> int:
        if node not in self._options:
            return self._slots[node]
        if node not in self._constants:
            self._constants[node] = self._add(_constant, (self._slots[node], self.like))
        return self._constants[node]

    def number(self, node: Expression, kind: str) -> int:
        slot = self._slots[node]
        if kind == "float" and isinstance(node, Number):
            self._numbers[slot - self._first_number] = float(node.value)
        return slot

    def _add(self, function: Callable[..., Any], arguments: tuple[int, ...]) -> int:
        self._calls.append((function, arguments))
        return self._first_call() + len(self._calls) - 1

    def _first_call(self) -> int:
        return self._first_number + len(self._numbers)

    def _with_last_uses(self) -> list[tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]]:
        """The calls, each with the values that no later one takes."""
        steps, needed = [], {self._result}
        for function, arguments in reversed(self._calls):
            last = {slot for slot in arguments if slot >= self._first_call()} - needed
            needed |= last
            steps.append((function, arguments, tuple(last)))
        return steps[::-1]

    def __call__(self, contract: str, arguments: Sequence[Any]) -> Tensor:
        values = [contract, *arguments, *self._numbers]
        for function, slots, last in self._steps:
            value = function(*[values[slot] for slot in slots])
            for slot in last:
                values[slot] = None
            values.append(value)
        return values[self._result]


def _constant(value: float, like: Tensor) -> Tensor:
    return constant(value, like.dtype, like.device)
