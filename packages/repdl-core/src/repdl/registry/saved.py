"""What a derivative keeps of a call: no tensor that none of the wanted gradients needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch


def save(ctx: Any, *tensors: tuple[torch.Tensor | None, Collection[int]]) -> None:
    """`ctx.save_for_backward`, with None in the place of a tensor that is not needed.

    Whoever changes a tensor in place after the call can't have a gradient that needs what was in it; all others are
    there, as in torch.

    Args:
        tensors: each with the numbers of the inputs whose gradients need it.
    """
    needed = ctx.needs_input_grad
    ctx.save_for_backward(*(tensor if any(needed[i] for i in inputs) else None for tensor, inputs in tensors))
