"""The watch of a backward pass that somebody else starts, later, or never.

A mode of torch belongs to a thread, and before each node that it computes autograd restores the modes that were on when
`backward` was called. So the mode is entered and left around every node, by hooks, which the nodes are given when the
first of them is reached: until then a result of a call has one hook. The hooks hold no node, as a graph that refers to
itself would never be freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

from repdl.audit import Report, Watch
from repdl.audit.place import current_node
from repdl.nn.outside import Outside, outside
from repdl.nn.tensor_hooks import LeafHooks

_OUTSIDE, _WAITS, _ENTERED, _LEFT = "outside", "waits", "entered", "left"


class BackwardWatch:
    """Watch a backward pass through the nodes between inputs and outputs of a call.

    Args:
        begin: called when the pass begins, with whether it is one to all leaves, as `backward()` is and
            `torch.autograd.grad` is not; gives what notes the ops, or None: the pass is not of interest.
        end: called at its end, with that and the report; what it raises, `backward` raises.
        came: called at the beginning of one to all leaves, with what is not reproducible of what it has come through.
    """

    def __init__(
        self,
        begin: Callable[[bool], Watch | None],
        end: Callable[[bool, Report], None],
        came: Callable[[Outside], None],
    ) -> None:
        self._begin, self._report, self._came = begin, end, came
        self._watch: Watch | None = None
        self._leaves: LeafHooks | None = None
        self._complete = False
        self._task = -1  # the pass whose end calls `_end`
        self._ended = False
        self._next: BackwardWatch | None = None  # of the derivatives of this pass (create_graph=True)
        self._key: Any = self  # of what is known of a node, in its metadata; that of all derivatives of one call

    def attach(self, outputs: Iterable[torch.Tensor], inputs: Iterable[torch.Tensor]) -> None:
        """Wait for a backward pass that comes to the outputs of a call, and let it go where it leaves by the inputs."""
        self._stop_at(inputs)
        for output in outputs:
            node: Any = output.grad_fn  # torch declares its metadata, a dictionary, as a method
            if node is not None and self._key not in node.metadata:
                node.metadata[self._key] = _WAITS
                node.register_prehook(self._start)

    def _stop_at(self, tensors: Iterable[torch.Tensor | None]) -> None:
        for tensor in tensors:
            node: Any = None if tensor is None else tensor.grad_fn
            if node is not None:
                node.metadata.setdefault(self._key, _OUTSIDE)

    def _start(self, grads: Any) -> None:
        node = current_node()
        if self._ended or node.metadata[self._key] is not _WAITS:  # or it has the hooks of the nodes
            return
        if self._watch is None:
            self._complete = self._reaches_all(node)
            self._watch = self._begin(self._complete)
            if self._watch is None:
                return
            self._leaves = LeafHooks(self._watch)
            found = outside(lambda node: self._key in node.metadata) if self._complete else None
            if found is not None:
                self._came(found)
        self._hook(node)
        self._enter(grads)  # hooks that are added now are not called any more

    def _below(self, node: Any) -> Iterator[Any]:
        """A node and those below it that belong to the call, leaves included, none twice."""
        nodes, seen = [node], {node}
        while nodes:
            node = nodes.pop()
            yield node
            for following, _ in node.next_functions:
                if following is not None and following not in seen and self._is_new(following):
                    seen.add(following)
                    nodes.append(following)

    def _is_new(self, node: Any) -> bool:
        return node.metadata.get(self._key, _WAITS) is _WAITS

    def _reaches_all(self, node: Any) -> bool:
        """Whether this pass accumulates into all leaves."""
        return all(_is_executed(below) for below in self._below(node) if hasattr(below, "variable"))

    def _hook(self, node: Any) -> None:
        """Give the hooks to a node and to those below it."""
        for below in list(self._below(node)) if self._is_new(node) else ():
            # A node that accumulates into a leaf belongs to the leaf, and lives on; what it does is one addition.
            if hasattr(below, "variable"):
                if self._leaves is not None:
                    self._leaves.replace(below.variable)
            else:
                below.metadata[self._key] = _LEFT
                below.register_prehook(self._enter)
                below.register_hook(self._leave)

    def _enter(self, grads: Any) -> None:
        if self._ended or self._watch is None:
            return
        task = torch._C._current_graph_task_id()
        if task != self._task:
            self._task = task
            torch.autograd.Variable._execution_engine.queue_callback(self._end)
        current_node().metadata[self._key] = _ENTERED
        _push_mode(self._watch)

    def _leave(self, grad_inputs: Any, grads: Any) -> None:
        metadata = current_node().metadata
        if metadata[self._key] is not _ENTERED:
            return
        _pop_mode()
        metadata[self._key] = _LEFT
        if torch.is_grad_enabled():
            self._derive(grad_inputs, grads)

    def _derive(self, grad_inputs: Iterable[torch.Tensor | None], grads: Iterable[torch.Tensor | None]) -> None:
        """Watch the nodes that a node has made in computing, too: a later pass computes the derivatives of this one."""
        if self._next is None:
            self._next = BackwardWatch(self._begin, self._report, self._came)
            self._next._key, self._next._watch, self._next._complete = self._key, self._watch, self._complete
        self._next._stop_at(grads)
        for grad in grad_inputs:
            if grad is not None and grad.grad_fn is not None:
                self._next._hook(grad.grad_fn)

    def _end(self) -> None:
        if not self._ended and self._watch is not None:
            self._ended = True
            if self._leaves is not None:
                self._leaves.restore()
            self._report(self._complete, self._watch.report())


def _is_executed(leaf: Any) -> bool:
    """Whether this pass accumulates into a leaf; torch raises for one whose gradient `torch.autograd.grad` returns."""
    try:
        return bool(torch._C._will_engine_execute_node(leaf))
    except RuntimeError:
        return False


__all__ = ["BackwardWatch"]
