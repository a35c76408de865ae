"""Refusals of what is not reproducible in a graph, before it runs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from repdl.audit.called import name_of
from repdl.audit.collectives import is_collective, reduces
from repdl.audit.location import SourceLocation
from repdl.audit.remedy import remedy
from repdl.audit.report import Finding
from repdl.audit.reproducibility import Classification, Reproducibility, classify
from repdl.errors import UnsupportedError
from repdl.overrides.kernels import is_computed
from repdl.overrides.refusal import GO_ON
from repdl.registry.plugins import folders

_FRAME = re.compile(r'File "(.*)", line (\d+), in (\S+)')
_LIBRARIES = tuple(str(folder) + os.sep for folder in (Path(str(torch.__file__)).parent, Path(__file__).parents[1]))
_FUNCTIONS = os.path.join("torch", "nn", "functional.py")
_CONTROL = frozenset({"cond", "invoke_subgraph", "map_impl", "while_loop", "with_effects"})
"""Operators of higher order that compute nothing but by graphs, or by ops, that are looked at too."""
_AROUND = frozenset({"auto_functionalized", "auto_functionalized_v2"})
"""Those that call the op that is their first argument."""


def check(graph: GraphModule, uncovered: str) -> set[str]:
    """See that all ops of a graph of autograd, forward or backward, are reproducible; the ops that it has warned of.

    Args:
        graph: the graph.
        uncovered: what `repdl.enable()` does with uncovered ops, or "" where it does not hold.

    Raises:
        UnsupportedError: for the first that is not, with op, module, line and what to use instead.
    """
    warned = set()
    for node in _calls(graph):
        op: Any = node.target
        args: Any = node.args
        if isinstance(op, HigherOrderOperator) and op.name() in _AROUND:
            op, args = args[0], args[1:]
        found = _classified(op, args, node, bool(uncovered))
        if found.reproducibility.ok:
            continue
        location, derivative = _location(node), _source(node) if _is_derivative(node) else ""
        advice = remedy(op, location.called, derivative, location.source) if isinstance(op, OpOverload) else None
        finding = Finding(str(op), found.reproducibility, found.reason, location, derivative, advice)
        message = f'torch.compile(backend="repdl"): not reproducible: {finding}'
        if uncovered != "warn":
            raise UnsupportedError(f"{message}; {GO_ON}" if uncovered else message)
        warnings.warn_explicit(message, UserWarning, location.file or "torch", location.line)
        warned.add(str(op))
    return warned


def _calls(graph: GraphModule) -> Iterator[Node]:
    """The calls of ops, in the graphs inside of the graph too."""
    for module in graph.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if node.op == "call_function" and isinstance(node.target, (OpOverload, HigherOrderOperator)):
                yield node


def _classified(op: Any, args: tuple[Any, ...], node: Node, is_enabled: bool) -> Classification:
    if isinstance(op, HigherOrderOperator):
        if op.name() in _CONTROL:
            return Classification(Reproducibility.MOVED, "computes by graphs alone")
        return Classification(Reproducibility.REFUSED, "what it computes is not in the graph")
    if op.name().startswith("aten::sym_"):
        return Classification(Reproducibility.MOVED, "says a size")
    values = map_arg((args, dict(node.kwargs)), lambda other: other.meta.get("val"))
    found = classify(op, *values, node.meta.get("val"))
    if is_enabled and not found.reproducibility.ok and (is_computed(op.name()) or _reduces(op.name())):
        return Classification(Reproducibility.REGISTERED, "computed by RepDL")
    return found


def _reduces(name: str) -> bool:
    """Whether an op reduces over ranks by one that is computed."""
    return is_collective(name) and reduces(name)


def _is_derivative(node: Node) -> bool:
    return bool(node.meta.get("autograd_backward"))


def _stack(node: Node, name: str) -> Any:
    """What Dynamo notes of the calls around a node, or around the one that it is the derivative of."""
    return node.meta.get(name) or node.meta.get(f"fwd_{name}") or ()


def _source(node: Node) -> str:
    """The function that the program calls."""
    called = _stack(node, "source_fn_stack")
    return str(getattr(called[-1][1], "__name__", called[-1][1])) if called else ""


def _location(node: Node) -> SourceLocation:
    """Where the program calls it, as `repdl.audit.location.here` says of what is not compiled."""
    file, line, called = "", 0, ""
    for name, number, function in reversed(_FRAME.findall(str(node.meta.get("stack_trace") or ""))):
        if not name.startswith((*_LIBRARIES, *folders())):
            file, line = name, int(number)
            break
        called = f"nn.functional.{function.lstrip('_')}" if name.endswith(_FUNCTIONS) else called
    reached = _stack(node, "source_fn_stack")
    called = called or (name_of(reached[-1][1]) if reached else "")
    modules = [path for path, _ in dict(_stack(node, "nn_module_stack")).values()]
    inner = modules[-1].removeprefix(modules[0]).lstrip(".") if modules else ""
    return SourceLocation(inner, file, line, called)


__all__ = ["check"]
