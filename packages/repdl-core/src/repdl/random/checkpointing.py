"""`torch.get_rng_state` and `torch.set_rng_state` carry the state of the default generator along.

`torch.utils.checkpoint` computes a part of a forward pass again during the backward pass, and restores the
random numbers that it drew with these two functions; were ours not among them, the gradients would be those
of another dropout mask. So the tensor that `torch.get_rng_state()` returns keeps our state beside torch's,
and `torch.set_rng_state` of that very tensor restores both. `torch.random.fork_rng` calls them too.

Under `torch.compile` a checkpoint is part of the graph, where no state is restored: there the positions of draws are
kept, which `save_positions` asks for.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import _C
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from repdl.generators.generator import _TASK, default_generator

__all__ = ["save_positions"]

_KEPT = "_repdl_state"
_torch_get, _torch_set = torch.get_rng_state, torch.set_rng_state


@functools.wraps(_torch_get)
def get_rng_state() -> torch.Tensor:
    state = _torch_get()
    # The last number says in which backward pass our state was restored, if it was.
    setattr(state, _KEPT, (default_generator._numbers.tolist(), _C._current_graph_task_id()))
    return state


@functools.wraps(_torch_set)
def set_rng_state(new_state: torch.Tensor) -> None:
    _torch_set(new_state)
    kept = getattr(new_state, _KEPT, None)
    if kept is not None:
        numbers, task = kept
        # A state of this backward pass is put back as it was. One from before it is the forward's: draws may go on.
        same = task == _C._current_graph_task_id()
        default_generator._set(numbers[:_TASK], numbers[_TASK] if same else None)


def save_positions() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """For `torch.utils.checkpoint.checkpoint(..., use_reentrant=False, context_fn=repdl.random.save_positions)`.

    Positions of draws, three integers each, are kept for the recomputation, which so draws the same numbers: from any
    generator, without `preserve_rng_state`, and where `torch.compile` is around the checkpoint.

    Source: https://docs.pytorch.org/docs/stable/checkpoint.html
    """
    return create_selective_checkpoint_contexts([torch.ops.repdl.advance.default])


def install() -> None:
    """Put both in the place of torch's, where `torch.utils.checkpoint` looks them up at each call."""
    torch.get_rng_state, torch.set_rng_state = get_rng_state, set_rng_state
