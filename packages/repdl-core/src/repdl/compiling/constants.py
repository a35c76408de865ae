"""What a graph computes of no input is computed once: numbers of the program, brought into the dtype of an op."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes


def fold(graph: GraphModule) -> None:
    """Compute the tensors of one element that depend on no input. Registered ops, which never change an argument nor
    return it, get the tensor itself; others get a copy."""
    known: dict[Node, torch.Tensor] = {}
    with _disable_current_modes(), torch.no_grad():
        for node in graph.graph.nodes:
            if _is_constant(node, known):
                args, kwargs = map_arg((node.args, dict(node.kwargs)), known.__getitem__)
                known[node] = node.target(*args, **kwargs)
    kept = [node for node in known if any(user not in known for user in node.users)]
    for number, node in enumerate(kept):
        name = f"_constant_{number}"
        graph.register_buffer(name, known[node], persistent=False)
        with graph.graph.inserting_before(node):
            read = graph.graph.get_attr(name)
            read.meta.update(node.meta)
            node.replace_all_uses_with(read, delete_user_cb=_is_registered)
            if any(user not in known for user in node.users):
                copy = graph.graph.call_function(torch.ops.aten.clone.default, (read,))
                copy.meta.update(node.meta)
                node.replace_all_uses_with(copy, delete_user_cb=lambda user: user not in known)
    for node in reversed(list(known)):
        if not node.users:
            graph.graph.erase_node(node)
    graph.recompile()


def _is_constant(node: Node, known: dict[Node, Any]) -> bool:
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(node.target, OpOverload) or not isinstance(value, torch.Tensor):
        return False
    return (
        value.dim() == 0
        and value.device.type == "cpu"
        and not node.is_impure()
        and all(other in known for other in node.all_input_nodes)
    )


def _is_registered(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.namespace == "repdl"


__all__ = ["fold"]
