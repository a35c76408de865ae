"""Batch normalisation whose statistics are those of the rows of all ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from repdl import registry
from repdl.contract import contract_name
from repdl.distributed.functions import all_reduce
from repdl.errors import check
from repdl.ops.common import constant, narrowed, widened

Tensor = torch.Tensor
_ops = registry.functions


def sync_batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
    group: Any = None,
    contract: str | None = None,
) -> Tensor:
    """`batch_norm` in training, `(N, C, ...) -> (N, C, ...)`, over the rows that all ranks of `group` give it.

    Running statistics are changed in place. Every rank calls it; some may have no rows.

    Raises:
        ShapeError: if there is no more than one value a channel on all ranks together.

    Contract: batch_norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
    """
    name = contract_name(contract)
    return _SyncBatchNorm.apply(*(input, weight, bias, running_mean, running_var, momentum, eps, group, name))


class _SyncBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float,
        eps: float, group: Any, contract: str,
    ) -> Tensor:  # fmt: skip
        _, (x,) = widened(input)
        rows = torch.tensor(input.numel() // input.shape[1])
        rows = rows.to(input.device)
        all_reduce(rows, group=group)
        n = int(rows)
        check("sync_batch_norm", n > 1, lambda: f"all ranks have {n} values a channel, expected more than 1")
        count = constant(n, x.dtype, x.device)
        mean = _ops.div(_over_ranks(x, group, contract), count, contract)
        centred = _ops.sub(x, _channels(mean, x), contract)
        squares = _over_ranks(_ops.mul(centred, centred, contract), group, contract)
        var = _ops.div(squares, count, contract)
        output, _, invstd, _, _ = _ops.batch_norm(input, mean, var, weight, bias, False, 0.0, eps, contract)
        if running_mean is not None:
            running_mean.copy_(_ops.lerp(running_mean, mean, momentum, contract))
            unbiased = _ops.div(squares, constant(n - 1, x.dtype, x.device), contract)
            running_var.copy_(_ops.lerp(running_var, unbiased, momentum, contract))
        ctx.save_for_backward(input, weight, mean, invstd)
        ctx.n, ctx.group, ctx.contract = n, group, contract
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        input, weight, mean, invstd = ctx.saved_tensors
        contract = ctx.contract
        _, own_weight, own_bias = _ops.batch_norm_backward(grad, input, weight, mean, invstd, False, contract)
        storage, (g, x) = widened(grad, input)
        sums = torch.stack([_wide(own_weight, g), _wide(own_bias, g)])
        all_reduce(sums, group=ctx.group)
        count = constant(ctx.n, g.dtype, g.device)
        w, b = (_channels(part, g) for part in _ops.div(sums, count, contract))
        h = _ops.mul(_ops.sub(x, _channels(mean, x), contract), _channels(invstd, x), contract)
        k = invstd if weight is None else _ops.mul(_wide(weight, g), invstd, contract)
        moved = _ops.sub(_ops.sub(g, b, contract), _ops.mul(h, w, contract), contract)
        grad_input = narrowed(_ops.mul(_channels(k, g), moved, contract), storage)
        has_weight, has_bias = ctx.needs_input_grad[1:3]
        return (grad_input, own_weight if has_weight else None, own_bias if has_bias else None, *[None] * 6)


def _wide(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor if tensor.dtype is like.dtype else _ops.cast(tensor, like.dtype)


def _channels(tensor: Tensor, like: Tensor) -> Tensor:
    """`(C)` as it broadcasts to `(N, C, ...)`."""
    return tensor.view(1, -1, *[1] * (like.dim() - 2))


def _over_ranks(x: Tensor, group: Any, contract: str) -> Tensor:
    """The sum of each channel over the elements of all ranks: `(N, C, ...) -> (C)`."""
    total = _ops.sum(x, [d for d in range(x.dim()) if d != 1], False, contract)
    all_reduce(total, group=group)
    return total


def group_size(group: Any = None) -> int:
    """How many ranks a group has, 1 without torch.distributed."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


__all__ = ["group_size", "sync_batch_norm"]
