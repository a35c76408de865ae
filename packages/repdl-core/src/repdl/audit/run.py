"""`repdl.audit`: which ops a call reaches, and which of them have the same bits on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from repdl.audit.report import Report
from repdl.audit.watch import Watch
from repdl.random import Generator


def audit(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:
    """Call a model or a function once, forward and backward, and say which ops of torch it reaches.

    The backward pass runs if a floating-point result requires a gradient, with gradients of ones. The model runs in the
    mode that it is in (train or eval), on copies of the tensors among the arguments, and is as it was afterwards: its
    parameters, buffers and gradients, the generators of torch and of RepDL.

    What is seen is what this call reaches: another branch of the program, or what it computes with numpy, is not.

    Args:
        function: a module, or any function of tensors. Names of modules begin at it.
        args, kwargs: those of the call.

    Returns:
        a report whose `findings` have op, count, module, line, reproducibility, reason and remedy, and whose `ok` says
        whether all ops have the same bits on every machine. Printed it is a table.

    Raises:
        what the call raises.

    Contract: docs/torch-ops.md describes each class.
    """
    root = function if isinstance(function, torch.nn.Module) else None
    copies: dict[int, Any] = {}
    args, kwargs = pytree.tree_map(lambda value: _copied(value, copies), (args, kwargs))
    with _kept(root):
        watch = Watch(root)
        with watch:
            result = function(*args, **kwargs)
        outputs = [
            value
            for value in pytree.tree_leaves(result)
            if isinstance(value, torch.Tensor) and value.requires_grad and value.grad_fn is not None
        ]
        leaves = list(_leaves(outputs))
        if leaves:
            ones = [torch.ones_like(output) for output in outputs]
            with watch:
                torch.autograd.grad(outputs, leaves, ones, allow_unused=True)
    return watch.report()


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """A tensor of its own for each that is passed, since a call may change it; parameters of a model stay."""
    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
        return value
    if id(value) not in copies:
        copies[id(value)] = value.detach().clone().requires_grad_(value.requires_grad)
    return copies[id(value)]


@contextmanager
def _kept(root: torch.nn.Module | None) -> Iterator[None]:
    """Parameters, buffers and the states of generators are afterwards what they were."""
    modules = [] if root is None else list(root.modules())
    tensors = [] if root is None else [*root.parameters(), *root.buffers()]
    generators = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, Generator)}
    states = [(generator, generator.get_state()) for generator in generators.values()]
    with torch.no_grad():
        values = [(tensor, _version(tensor), tensor.clone()) for tensor in tensors if not tensor.is_meta]
    try:
        with torch.random.fork_rng():  # RepDL's default generator with torch's
            yield
    finally:
        for tensor, version, value in values:
            if version is None or tensor._version != version:
                with torch.inference_mode(version is None), torch.no_grad():
                    tensor.copy_(value)
        for generator, state in states:
            generator.set_state(state)


def _version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed; None: nobody counts."""
    return None if tensor.is_inference() else tensor._version


def _leaves(outputs: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The tensors whose gradients a backward pass from `outputs` would accumulate."""
    seen: set[Any] = set()
    nodes = [output.grad_fn for output in outputs]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        nodes += [following for following, _ in node.next_functions]


__all__ = ["audit"]
