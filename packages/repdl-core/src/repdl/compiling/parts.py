"""The two parts of a joint graph: its forward and its backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from repdl.errors import UnsupportedError


def partition(joint: GraphModule, *args: Any, **kwargs: Any) -> tuple[GraphModule, GraphModule]:
    """Each op where the program has it: nothing is computed twice, but what a checkpoint asks for.

    A checkpoint that draws keeps its values: torch could not draw again at the position of an op.
    """
    from torch._functorch.partitioners import default_partition

    nodes = list(joint.graph.nodes)
    if any(_draws(node) and "recompute" in node.meta for node in nodes):
        for node in nodes:
            node.meta.pop("recompute", None)
    return default_partition(joint, *args, **kwargs)


def draw_once(backward: GraphModule) -> None:
    """Take out of a backward graph the draws of the forward pass, which torch leaves in both.

    Raises:
        UnsupportedError: if the backward pass takes their numbers.
    """
    for node in reversed(list(backward.graph.nodes)):
        if _draws(node):
            if node.users:
                raise UnsupportedError(f'torch.compile(backend="repdl"): {node.target} draws in the backward pass')
            backward.graph.erase_node(node)
    backward.recompile()


def _draws(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


__all__ = ["draw_once", "partition"]
