"""Calls of ops: the tensors in them, and their other arguments as a text that can be read again."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from repdl.errors import RecordError

_PLAIN = (int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_OBJECTS = (torch.dtype, torch.layout, torch.memory_format)


def tensors_of(values: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples and mappings, and in what torch takes apart as such, in their order."""
    found: list[torch.Tensor] = []
    _find(values, found)
    return found


def _find(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif type(value) in (list, tuple):
        for item in value:
            _find(item, found)
    elif type(value) is dict:
        for item in value.values():
            _find(item, found)
    elif not isinstance(value, _PLAIN):
        found += [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def outputs_of(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> list[torch.Tensor]:
    """What an op returned, and the arguments that it changed."""
    made = tensors_of(result)
    schema = getattr(op, "_schema", None)
    if schema is None or not schema.is_mutable:
        return made
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[i] if i < len(args) and not argument.kwarg_only else kwargs.get(argument.name)
            made += [tensor for tensor in tensors_of(given) if all(tensor is not other for other in made)]
    return made


def spelled_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The arguments of a call, each tensor as `_`; nothing if there are only tensors."""
    given = [_spelled(value) for value in args] + [f"{name}={_spelled(value)}" for name, value in kwargs.items()]
    return "" if all(text == "_" for text in given) else ", ".join(given)


def _spelled(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "_"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_spelled, value))}]"
    if isinstance(value, (torch.Generator, torch.ScriptObject)) or callable(value):
        return type(value).__name__  # others have the address of this run in their text
    return repr(value)


def comes_later(name: str) -> bool:
    """Whether an op, by its name, returns before its outputs are there: a collective that others wait for."""
    namespace, _, plain = name.partition(".")
    return namespace in ("c10d", "_c10d_functional") and not plain.startswith("wait")


def read_arguments(text: str, tensors: list[torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call as a record spells them, with its tensors in their order."""
    given = iter(tensors)
    if not text:
        return list(given), {}
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        args = [_value(node, given) for node in call.args]
        return args, {str(word.arg): _value(word.value, given) for word in call.keywords}
    except (SyntaxError, ValueError, AssertionError, StopIteration) as error:
        raise RecordError(f"rerun: arguments ({text}) can't be read: {error}") from error


def _value(node: ast.expr, tensors: Iterator[torch.Tensor]) -> Any:
    """What a record spells: numbers, strings, lists, dtypes, layouts and devices; `_` is the next tensor."""
    if isinstance(node, ast.Name) and node.id in ("_", "inf", "nan"):
        return next(tensors) if node.id == "_" else float(node.id)
    if isinstance(node, ast.List):
        return [_value(item, tensors) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, tensors)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):  # a complex number
        left, right = _value(node.left, tensors), _value(node.right, tensors)
        return left + right if isinstance(node.op, ast.Add) else left - right
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
        found = getattr(torch, node.attr, None)
        if isinstance(found, _OBJECTS):
            return found
    if (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "device"
    ):  # of another machine
        return torch.device("cpu")
    if isinstance(node, ast.Constant):
        return node.value
    raise ValueError(f"{ast.unparse(node)} is not known")


__all__ = ["comes_later", "outputs_of", "read_arguments", "spelled_arguments", "tensors_of"]
