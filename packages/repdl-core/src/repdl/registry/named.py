"""Checks, outputs and derivatives of an op, as functions of the arguments that their parameters name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from repdl.registry import functions
from repdl.registry.op import OPS
from repdl.tensors.layout import memory_format

Function = Callable[..., Any]
Gradients = Mapping[str | tuple[str, ...], Function | str]
"""Argument -> its gradient; several arguments -> their gradients as a tuple, where one function gives them all."""


_TRAITS: dict[str, Callable[[torch.Tensor], Any]] = {
    "_shape": lambda tensor: tensor.shape,
    "_dtype": lambda tensor: tensor.dtype,
    "_format": memory_format,
}
"""What a derivative may need of a tensor without its values."""


def by_name(function: Function, op: str, names: Sequence[str]) -> Function:
    """A function of all arguments of an op that calls `function` with those that its parameters name.

    `op`, unless an argument has that name, is the name of the op. A function of `*args` gets all, in order.

    Raises:
        TypeError: if a parameter is neither, and has no default.
    """
    parameters = _parameters(function)
    if parameters is None:
        return function
    wanted = [p for p, is_required in parameters.items() if p in names or p == "op" or is_required]
    if wanted == list(names):
        return function
    unknown = [p for p in wanted if p not in names and p != "op"]
    if unknown:
        raise TypeError(
            f"{op}: a function takes {', '.join(unknown)}, expected arguments of the op: {', '.join(names)}"
        )
    positions = [names.index(p) if p in names else None for p in wanted]
    return lambda *args: function(*[op if i is None else args[i] for i in positions])


def _parameters(function: Function) -> dict[str, bool] | None:
    """Parameter -> whether a call has to give it; None for a function of `*args`."""
    if type(function) is FunctionType and not vars(function):  # 400 times an import: faster than below
        code = function.__code__
        if code.co_flags & inspect.CO_VARARGS:
            return None
        if not (code.co_kwonlyargcount or code.co_flags & inspect.CO_VARKEYWORDS):
            count = code.co_argcount
            required = count - len(function.__defaults__ or ())
            return {p: i < required for i, p in enumerate(code.co_varnames[:count])}
    given = inspect.signature(function).parameters
    if any(p.kind is p.VAR_POSITIONAL for p in given.values()):
        return None
    return {name: p.default is p.empty for name, p in given.items()}


class Derivative:
    """The derivative of an op from functions, each of what its parameters name; keeps no tensor that none needs.

    g           the gradient of the output, of several outputs that of the first
    grads       the gradients of all outputs, as a tuple; unless a function names it, all but the first have none
    x           any argument of the op
    x_shape     the shape of an argument x, which is not kept for that; so x_dtype, and x_format, its memory format
    output      the output, of several that of this name in the schema
    to_x        the gradient of an argument x, which is computed once
    anything    a part that several functions name, a function under this key, which is computed once

    In place of a function, the name of a registered op stands for a call of it, with g as its first argument.
    """

    def __init__(self, schema: Any, gradients: Gradients) -> None:
        self._schema, self._gradients = schema, gradients
        self._names = [argument.name for argument in schema.arguments]
        self._functions: dict[Any, tuple[Function, tuple[str, ...]]] = {}
        self._several = [key for key in gradients if isinstance(key, tuple)]

    def _prepare(self) -> None:
        """What is found out at the first call, when all ops are registered."""
        names, schema = self._names, self._schema
        for key, function in self._gradients.items():
            name = f"to_{key}" if key in names else key
            if isinstance(function, str):
                _, *others = (argument.name for argument in OPS[function].overload._schema.arguments)
                self._functions[name] = getattr(functions, function), ("g", *others)
            else:
                self._functions[name] = function, tuple(inspect.signature(function).parameters)
        made = [p for p in names if f"to_{p}" in self._functions or any(p in key for key in self._several)]
        self._wanted = [(names.index(p), p) for p in made]
        needs = [(i, self._needs(self._source(p))) for i, p in self._wanted]
        asked = {name for _, needed in needs for name in needed}
        tensors = {a.name for a in schema.arguments if "Tensor" in str(a.type)}
        self._all_outputs = "grads" in asked
        self._traits = [
            (f"{p}{suffix}", i, trait)
            for i, p in enumerate(names)
            for suffix, trait in _TRAITS.items()
            if p in tensors and f"{p}{suffix}" in asked - {*names}
        ]
        self._options = [(p, i) for i, p in enumerate(names) if p in asked - tensors]
        outputs = [value.name or ("output" if i == 0 else "") for i, value in enumerate(schema.returns)]
        values = [*(p if p in tensors else "" for p in names), *(p if p not in tensors else "" for p in outputs)]
        self._saved = [(p, k, [i for i, needed in needs if p in needed]) for k, p in enumerate(values) if p in asked]

    def _source(self, argument: str) -> Any:
        """The function that gives the gradient of an argument."""
        return next((key for key in self._several if argument in key), f"to_{argument}")

    def _needs(self, name: Any) -> set[str]:
        """What the value of a function depends on."""
        if name not in self._functions:
            return {name}
        return {base for parameter in self._functions[name][1] for base in self._needs(parameter)}

    def setup_context(self, ctx: Any, inputs: Any, output: Any) -> None:
        if not self._functions:
            self._prepare()
        outputs = output if isinstance(output, tuple) else (output,)
        if not self._all_outputs and len(outputs) > 1:
            ctx.mark_non_differentiable(*outputs[1:])
        ctx.known = {p: inputs[i] for p, i in self._options}
        ctx.known.update((p, trait(inputs[i])) for p, i, trait in self._traits)
        if self._saved:
            needed, values = ctx.needs_input_grad, (*inputs, *outputs)
            wanted = (values[k] if any(needed[i] for i in needing) else None for _, k, needing in self._saved)
            ctx.save_for_backward(*wanted)

    def backward(self, ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        known = {**ctx.known, "g": grads[0], "grads": grads}
        if self._saved:
            known.update((p, tensor) for (p, *_), tensor in zip(self._saved, ctx.saved_tensors))
        results: list[Any] = [None] * len(self._names)
        for i, name in self._wanted:
            if ctx.needs_input_grad[i]:
                source = self._source(name)
                found = self._value(source, known)
                results[i] = found[source.index(name)] if isinstance(source, tuple) else found
        return tuple(results)

    def _value(self, name: Any, known: dict[Any, Any]) -> Any:
        if name not in known:
            function, parameters = self._functions[name]
            known[name] = function(*[self._value(p, known) for p in parameters])
        return known[name]
