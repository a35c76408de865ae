"""Chains of pointwise ops in a graph become one call each, whose kernels run block by block.

A chain is made of registered ops whose results have one shape. What it hands on within itself is never written to
memory as a whole (`repdl.callcache.blocks`). Its ops are those of the graph in their order, so no bit changes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from repdl.callcache import cache_blocks
from repdl.ops.declare.pointwise import POINTWISE
from repdl.registry import OPS

_LEAST, _MOST_INPUTS, _MOST_OPS = 1 << 15, 32, 48
"""Elements that are worth it; a recording has at most 64 tensors, and 96 new ones."""
_SAME = frozenset({torch.ops.aten.alias.default, torch.ops.aten.detach.default})
"""What gives its argument back."""
_Shape = tuple[torch.Size, torch.device]


def fuse(graph: GraphModule) -> None:
    """Replace each chain of a graph by one call."""
    for number, chain in enumerate(list(_chains(graph.graph))):
        _replace(graph.graph, chain, f"chain_{number}")
    graph.recompile()


def _chains(graph: Graph) -> Iterator[list[Node]]:
    """Those of at least two ops. What stands between nodes of a chain needs none of them, so it may run before."""
    open_chains: dict[_Shape, list[Node]] = {}

    def closed(shape: _Shape) -> Iterator[list[Node]]:
        nodes = open_chains.pop(shape)
        while nodes and nodes[-1].target in _SAME:
            nodes.pop()
        if sum(node.target not in _SAME for node in nodes) > 1:
            yield nodes

    for node in graph.nodes:
        joins = _shape(node)
        chain = open_chains.get(joins, []) if joins is not None else []
        if joins is not None and node.target in _SAME and node.args[0] not in chain:
            joins = None
        for shape, nodes in list(open_chains.items()):
            takes = any(source in nodes for source in node.all_input_nodes)
            full = shape == joins and _is_full([*nodes, node])
            if full or (takes and shape != joins) or node.op == "output" or _changes(node):
                yield from closed(shape)
        if joins is not None:
            open_chains.setdefault(joins, []).append(node)


def _shape(node: Node) -> _Shape | None:
    """Of the result of a node that a chain may have."""
    if node.op != "call_function" or not (node.target in _SAME or registered(node) in POINTWISE):
        return None
    made = _plain(node)
    if made is None or made.numel() < _LEAST:
        return None
    for source in node.all_input_nodes:
        given = _plain(source)
        if given is None or (given.dim() > 0 and given.shape != made.shape) or given.device != made.device:
            return None
    return made.shape, made.device


def registered(node: Node) -> str | None:
    """The name of the registered op that a node calls, if it does."""
    op = OPS.get(node.target._opname) if isinstance(node.target, OpOverload) else None
    return op.name if op is not None and op.overload is node.target else None


def _plain(node: Node) -> torch.Tensor | None:
    """The tensor of a node, as it is traced, if it is row-major, on the host, and of known sizes."""
    value = node.meta.get("val")
    if node.op == "get_attr" and value is None:
        value = getattr(node.graph.owning_module, str(node.target), None)
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return None
    known = all(isinstance(size, int) for size in value.shape)
    return value if known and value.is_contiguous() else None


def _is_full(nodes: list[Node]) -> bool:
    inputs = {source for node in nodes for source in node.all_input_nodes} - {*nodes}
    return len(nodes) > _MOST_OPS or len(inputs) > _MOST_INPUTS


def _changes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _replace(graph: Graph, chain: list[Node], name: str) -> None:
    inside = {*chain}
    inputs = list(dict.fromkeys(source for node in chain for source in node.all_input_nodes if source not in inside))
    needed = [node for node in chain if any(user not in inside for user in node.users)]
    if not needed:  # nobody takes it
        return
    outputs = list(dict.fromkeys(map(_made, needed)))
    with graph.inserting_after(chain[-1]):
        call = graph.call_function(_function(chain, inputs, outputs, name), tuple(inputs))
    values, last = dict.fromkeys(outputs, call), call
    for number, output in enumerate(outputs if len(outputs) > 1 else []):
        with graph.inserting_after(last):
            last = values[output] = graph.call_function(operator.getitem, (call, number))
    for output, value in values.items():
        value.meta.update(output.meta)
    for node in needed:
        value = values[_made(node)]
        if node.target in _SAME:
            with graph.inserting_after(last):
                last = graph.call_function(node.target, (value,))  # type: ignore[arg-type]
            last.meta.update(node.meta)
            value = last
        node.replace_all_uses_with(value, delete_user_cb=lambda user: user not in inside and user is not call)
    for node in reversed(chain):
        graph.erase_node(node)


def _made(node: Node) -> Node:
    """The op whose result a node of a chain gives."""
    while node.target in _SAME:
        node = node.all_input_nodes[0]
    return node


def _function(chain: list[Node], inputs: list[Node], outputs: list[Node], name: str) -> Callable[..., Any]:
    graph = Graph()
    known = {node: graph.placeholder(node.name) for node in inputs}
    for node in chain:
        known[node] = known[node.all_input_nodes[0]] if node.target in _SAME else graph.node_copy(node, known.get)  # type: ignore[arg-type]
    results = tuple(known[node] for node in outputs)
    graph.output(results if len(results) > 1 else results[0])
    function = cache_blocks(GraphModule({}, graph).forward)

    def call(*tensors: Any) -> Any:
        return function(*tensors)

    call.__name__ = name  # in the code of graphs
    return call


__all__ = ["fuse", "registered"]
