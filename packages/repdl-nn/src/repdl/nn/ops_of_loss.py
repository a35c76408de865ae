"""What a program computes of a model's results before it calls `backward`: the loss, in most programs.

It is no part of the model, and over when the backward pass comes to the model's results. What is left of it is the
graph of autograd from the roots of the pass, whose nodes have the names of the ops of torch that made them; what they
have saved is freed. So less is known than of the model: not whether an index is a mask, nor the lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from repdl.audit import OP_CLASSES, OpClass
from repdl.audit.location import is_engine, is_library

_SUMS = frozenset({"expand", "repeat", "gather", "index_select", "embedding", "take"})  # their derivatives


@dataclass(frozen=True)
class LossOps:
    """Names of ops of torch that are not reproducible, sorted, and the line that calls `backward`."""

    names: tuple[str, ...]
    file: str
    line: int


def ops_of_loss(is_own: Callable[[Any], bool]) -> LossOps | None:
    """The refused ops of the backward pass under way, up to the nodes that are a model's own.

    None if there are none, or if the pass is not seen, as in the threads of autograd (on a GPU).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_engine(frame):
        frame = frame.f_back
    if frame is None:
        return None
    roots = [node for root in frame.f_locals.get("t_outputs", ()) if (node := _node(root)) is not None]
    while frame.f_back is not None and is_library(frame):
        frame = frame.f_back
    names, seen, nodes = set(), set(roots), list(roots)
    while nodes:
        node = nodes.pop()
        if is_own(node):
            continue
        name = _name(node)
        if name and not (name == "sum" and node in roots) and _is_refused(name, node):
            names.add(name)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return LossOps(tuple(sorted(names)), frame.f_code.co_filename, frame.f_lineno) if names else None


def _node(root: Any) -> Any:
    return root.grad_fn if isinstance(root, torch.Tensor) else getattr(root, "node", None)


def _name(node: Any) -> str:
    """The op that made a node of torch's own; "" of one in Python, such as those of registered ops."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return ""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name().partition("Backward")[0]).lower()


def _is_refused(name: str, node: Any) -> bool:
    """Whether the op of a node is not reproducible, or its derivative a sum in an order of torch's."""
    if name in _SUMS:
        return True
    if name == "pow" and getattr(node, "_saved_exponent", None) == 2:
        return False
    names = (name, f"_{name}", f"native_{name}", f"{name}_forward", f"_{name}_forward")
    op_class = next((OP_CLASSES[n] for n in names if n in OP_CLASSES), None)
    return op_class in (OpClass.REFUSED, OpClass.INTEGER) or (op_class is OpClass.ROUNDS and _is_broadcast(node))


def _is_broadcast(node: Any) -> bool:
    """Whether an operand of the op has another shape than its result."""
    shape = node._input_metadata[0].shape
    return any(f is not None and f._input_metadata[i].shape != shape for f, i in node.next_functions)


__all__ = ["LossOps", "ops_of_loss"]
