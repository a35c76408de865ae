"""Hooks of tensors, which autograd calls before it comes to the hooks of a node, and so before the watch is on.

Those of a leaf lie in a dictionary of it, where they are replaced while a backward pass is watched. Those that a call
registers on what it computes are replaced when they are registered: nothing leads from a node to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from repdl.audit import Report, Watch

Hook = Callable[[torch.Tensor], Any]


class LeafHooks:
    """The hooks of leaves, as long as they run in a watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch: Watch | None = watch
        self._replaced: list[tuple[dict[int, Hook], int, Hook]] = []
        self._leaves: set[int] = set()

    def replace(self, leaf: torch.Tensor) -> None:
        """Let the hooks of a leaf run in the watch."""
        if id(leaf) in self._leaves:
            return
        self._leaves.add(id(leaf))
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            hooks: dict[int, Hook] = getattr(leaf, name) or {}
            for key, hook in list(hooks.items()):
                self._replaced.append((hooks, key, hook))
                hooks[key] = self._watched(hook)

    def restore(self) -> None:
        """Put the hooks back that are still there."""
        self._watch = None
        for hooks, key, hook in self._replaced:
            if key in hooks:
                hooks[key] = hook
        self._replaced.clear()

    def _watched(self, hook: Hook) -> Hook:
        def run(value: torch.Tensor) -> Any:
            if self._watch is None:
                return hook(value)
            with self._watch:
                return hook(value)

        return run


class CallHooks(TorchFunctionMode):
    """While it is on, a hook that is registered on a tensor is watched when it runs first.

    Args:
        complain: called with the report; what it raises, `backward` raises.
    """

    def __init__(self, complain: Callable[[Report], None]) -> None:
        super().__init__()
        self._complain = complain

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.register_hook and len(args) == 2:
            args = (args[0], self._watched(args[1]))
        return function(*args, **(kwargs or {}))

    def _watched(self, hook: Hook) -> Hook:
        complain: Callable[[Report], None] | None = self._complain

        def run(grad: torch.Tensor) -> Any:
            nonlocal complain
            if complain is None:
                return hook(grad)
            with Watch() as watch:
                result = hook(grad)
            complain(watch.report())
            complain = None
            return result

        return run


__all__ = ["CallHooks", "LeafHooks"]
