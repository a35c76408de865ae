"""The steps of a layer over a packed batch of sequences (`repdl.ops.rnn.recurrent`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from repdl.errors import check, check_dim, check_size
from repdl.registry import functions as _ops

State = tuple[Tensor, ...]


def order_of(sizes: Sequence[int], reverse: bool) -> list[int]:
    """The steps in the order in which they are taken."""
    return list(range(len(sizes)))[:: -1 if reverse else 1]


def blocks_of(packed: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """The rows of each step."""
    return packed.split(list(sizes))


def walk(
    initial: State, order: Sequence[int], sizes: Sequence[int], step: Callable[[int, State], State]
) -> tuple[Tensor, ...]:
    """Take the steps from states (batch, ...), whose rows join when their sequence begins, and the states at its end.

    Sizes rise or fall along `order`: a sequence whose rows leave does not come back.
    """
    state = tuple(s.narrow(0, 0, sizes[order[0]]) for s in initial)
    left: list[State] = []
    for t in order:
        before, now = state[0].shape[0], sizes[t]
        if now > before:
            state = tuple(torch.cat((s, i.narrow(0, before, now - before))) for s, i in zip(state, initial))
        elif now < before:
            left.append(tuple(s.narrow(0, now, before - now) for s in state))
            state = tuple(s.narrow(0, 0, now) for s in state)
        state = step(t, state)
    return tuple(torch.cat(parts) for parts in zip(state, *reversed(left))) if left else state


def began_with(packed: Tensor, initial: Tensor, sizes: Sequence[int], reverse: bool) -> list[Tensor]:
    """What the step of each block of rows began with, from what the steps made of it."""
    blocks, rows = blocks_of(packed, sizes), list(sizes)
    if reverse:
        later = [
            b if b.shape[0] == n else torch.cat((b, initial.narrow(0, b.shape[0], n - b.shape[0])))
            for b, n in zip(blocks[1:], rows)
        ]
        return [*later, initial.narrow(0, 0, rows[-1])]
    return [initial.narrow(0, 0, rows[0]), *(b.narrow(0, 0, n) for b, n in zip(blocks, rows[1:]))]


def per_step(sizes: Sequence[int]) -> list[Any]:
    """What each step gives, in the order in which rows are packed."""
    return [None] * len(sizes)


def joined(blocks: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(blocks))


def none_like(like: Tensor, columns: int) -> Tensor:
    """What a layer gives in place of what it does not save."""
    return like.new_empty((0, columns))


def check_layer(
    op: str, gates: int, input: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, sizes: Sequence[int]
) -> int:
    """Raise unless these fit together; returns the size of an element of the gates."""
    check_dim(op, 2, input=input, hidden=hidden, weight=weight)
    check_dim(op, 1, bias=bias)
    check(op, len(sizes) > 0, "batch_sizes is empty, expected one size a step, of at least one step")
    falls = min(sizes) >= 0 and all(a >= b for a, b in pairwise(sizes))
    check(op, falls, lambda: f"batch_sizes is {list(sizes)[:20]}, expected sizes that do not rise")
    check_size(op, "input.shape[0]", input.shape[0], sum(sizes), "the sum of batch_sizes")
    check_size(op, "hidden.shape[0]", hidden.shape[0], sizes[0], "batch_sizes[0]")
    check_size(op, "weight.shape[1]", weight.shape[1], hidden.shape[1], "hidden.shape[1]")
    check_size(op, "input.shape[1]", input.shape[1], weight.shape[0], "weight.shape[0]")
    rows = weight.shape[0]
    check(op, rows % gates == 0, lambda: f"weight.shape[0] is {rows}, expected a multiple of {gates}")
    if bias is not None:
        check_size(op, "bias.shape[0]", bias.shape[0], weight.shape[0], "weight.shape[0]")
    return rows // gates


def product_of(before: Tensor, weight: Tensor, bias: Tensor | None, contract: str) -> Any:
    """What a step added to its input, where a derivative is differentiated; no other one reads it."""
    return _ops.linear(before, weight, bias, contract) if torch.is_grad_enabled() else None


def weight_gradients(
    ctx: Any, index: int, grads: Tensor, before: Tensor, contract: str
) -> tuple[Tensor | None, Tensor | None]:
    """Of weight and bias, arguments `index` and the next: one product and one sum over all rows."""
    weight = _ops.matmul(grads, before, True, False, contract) if ctx.needs_input_grad[index] else None
    bias = _ops.sum(grads, [0], False, contract) if ctx.needs_input_grad[index + 1] else None
    return weight, bias
