"""Which function of torch the program calls, by its public name below `torch`: `softmax`, `nn.functional.linear`.

What torch composes in Python has frames; those of its public functions say their names. What it composes in
C++ has none: there the program's own frame stands at an instruction, and Python (3.11 or newer) knows which part of the
source that is.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import operator
import sys
from functools import cache, lru_cache, partial
from itertools import islice
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

import torch

_OF_MODULES: dict[str, tuple[str, Any]] = {
    "torch.functional": ("", torch),
    "torch._tensor": ("", torch.Tensor),
    "torch.nn.functional": ("nn.functional.", torch.nn.functional),
}
"""Modules whose functions go by another name than the module's, and where that name is."""
_OF_CLASSES = {
    "_Orthogonal": "nn.utils.parametrizations.orthogonal",
    "_SpectralNorm": "nn.utils.parametrizations.spectral_norm",
    "_WeightNorm": "nn.utils.parametrizations.weight_norm",
    "SpectralNorm": "nn.utils.spectral_norm",
    "WeightNorm": "nn.utils.weight_norm",
}
"""Classes of `torch.nn.utils` that compute for a function of it."""
_WRITTEN = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
_OPERATORS = {name: name for name in _WRITTEN.values()} | {
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
}
"""The function of torch for an operator of Python's module, and the one that writes in place."""
_OF_OPERATORS = {getattr(operator, kind + name): torchs for name, torchs in _OPERATORS.items() for kind in ("", "i")}


class Called:
    """The name, found by frames of torch that are told from the innermost one on, and the program's after them.

    It is the innermost layer of torch.nn that computes, or where none does, the outermost of torch's public functions.
    """

    def __init__(self) -> None:
        self.name = ""

    def torchs(self, frame: FrameType, module: str) -> None:
        """Hear of a frame of a module of torch."""
        found = _of_frame(frame, module)
        is_layer = self.name.startswith("nn.") and self.name[3].isupper()
        if found and (not is_layer or found.startswith("nn.functional.")):  # which calls a layer for its own purposes
            self.name = found

    def programs(self, frame: FrameType) -> None:
        """Hear of the innermost frame of the program."""
        found = _at(frame)
        self.name = found if found.startswith("nn.functional.") else self.name or found


def _of_frame(frame: FrameType, module: str) -> str:
    """What a frame of torch says of the function that the program calls; "" if nothing."""
    name = frame.f_code.co_name
    if module in _OF_MODULES:
        home, known = _OF_MODULES[module]
        plain = name if name.endswith("__") else name.lstrip("_")  # `_max_pool2d` is one of the two of `max_pool2d`
        return home + plain if hasattr(known, plain) else ""
    if module == "torch.nn.init" or module.startswith("torch.nn.utils."):
        return _of_utilities(frame, module, name)
    if module.startswith("torch.optim.") and name == "step":
        return f"optim.{type(frame.f_locals.get('self')).__name__}"
    if module.startswith("torch.nn.modules.") and module != "torch.nn.modules.module":
        return _of_layer(frame.f_locals.get("self"))
    return ""


def _of_utilities(frame: FrameType, module: str, name: str) -> str:
    if "self" in frame.f_locals:
        return _OF_CLASSES.get(type(frame.f_locals["self"]).__name__, "")
    name = name.lstrip("_")  # `_get_total_norm` is exported without
    for home in ("torch.nn.utils", module):
        if getattr(getattr(sys.modules[home], name, None), "__module__", "") == module:
            return f"{home.removeprefix('torch.')}.{name}"
    return ""


def _of_layer(owner: Any) -> str:
    """The class of torch.nn that a module is, or is derived from."""
    for kind in type(owner).__mro__ if isinstance(owner, torch.nn.Module) else ():
        if kind is not torch.nn.Module and getattr(torch.nn, kind.__name__, None) is kind:
            return f"nn.{kind.__name__}"
    return ""


def _at(frame: FrameType) -> str:
    """What the program calls with the instruction at which its frame stands, if it is torch's."""
    call = _written(frame.f_code, frame.f_lasti)
    if isinstance(call, str):
        return call
    if call is None:
        return ""
    found = _value(call, frame)
    if found is not None:
        return name_of(found)
    name = call.attr if isinstance(call, ast.Attribute) else call.id if isinstance(call, ast.Name) else ""
    return name if callable(getattr(torch.Tensor, name, None)) else ""


@lru_cache(maxsize=4096)
def _written(code: CodeType, instruction: int) -> str | ast.expr | None:
    """The name of an operator, or what is called, at an instruction; None if it is neither, or not known."""
    if not hasattr(code, "co_positions"):  # Python 3.10
        return None
    first, last, begin, end = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    if first is None or last is None or begin is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    text = b"".join(lines).decode(errors="replace")
    return _of_text(f"({text}\n)") or _of_text(text)


def _of_text(text: str) -> str | ast.expr | None:
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):  # ValueError: of another number of statements too
        return None
    if isinstance(statement, ast.AugAssign):
        return _operator(statement.op)
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Call):
        return value.func
    if isinstance(value, ast.BinOp) and not isinstance(value.left, ast.Constant):
        return _operator(value.op)
    return None


def _operator(written: ast.operator) -> str | None:
    return _OPERATORS.get(_WRITTEN.get(type(written), ""))


def _value(written: ast.expr, frame: FrameType) -> Any:
    """What a name, or an attribute of one, is in a frame, as far as that runs no code; None: not known."""
    if isinstance(written, ast.Name):
        code = frame.f_code  # whose variables are asked for only if it is one of them: to ask is to hold them all
        is_local = written.id in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
        for names in (frame.f_locals if is_local else frame.f_globals, vars(builtins)):
            if written.id in names:
                return names[written.id]
    if isinstance(written, ast.Attribute):
        owner = _value(written.value, frame)
        if isinstance(owner, ModuleType):
            return vars(owner).get(written.attr)
        if owner is not None and not isinstance(owner, torch.Tensor):
            found = inspect.getattr_static(owner, written.attr, None)
            return found.__func__ if isinstance(found, staticmethod) else found
    return None


@cache
def _functional() -> dict[int, str]:
    """The names in torch's module by the identity of functions; some have another `__name__`."""
    functions = {name: value for name, value in vars(torch.nn.functional).items() if not name.startswith("_")}
    return {id(value): name for name, value in functions.items() if callable(value)}


def name_of(function: Any) -> str:
    """The public name of a function, a method of tensors, or a layer of torch; "" of anything else."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, str):
        return function
    if isinstance(function, BuiltinFunctionType) and function in _OF_OPERATORS:
        return _OF_OPERATORS[function]
    name, home = str(getattr(function, "__name__", "")), getattr(function, "__self__", None)
    if isinstance(function, type):
        return f"nn.{name}" if issubclass(function, torch.nn.Module) and getattr(torch.nn, name, 0) is function else ""
    functional = _functional().get(id(function))
    if functional is not None:
        return f"nn.functional.{functional}"
    if getattr(torch, name, None) is function or isinstance(home, torch.Tensor):
        return name
    for folder in ("linalg", "special"):
        if name.startswith(f"{folder}_") and getattr(home, "__name__", "") == f"torch._C._{folder}":
            return f"{folder}.{name.removeprefix(f'{folder}_')}"
    owner = getattr(function, "__objclass__", None)
    return name if isinstance(owner, type) and issubclass(torch.Tensor, owner) else ""


__all__ = ["Called", "name_of"]
