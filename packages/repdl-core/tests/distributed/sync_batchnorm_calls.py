"""What ranks call in the test of SyncBatchNorm."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

import repdl
from repdl.distributed import algorithms
from repdl.testing import uniform


def rows(rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Those of a rank: each has another number of them."""
    return (uniform(rank, 3 + 2 * rank, 5, 4) * 2 + 0.5).to(dtype)


def layer() -> torch.nn.Module:
    made = repdl.nn.Sequential(repdl.nn.BatchNorm1d(5))
    made[0].weight.data = torch.tensor([0.5, 1.0, -1.5, 2.0, 0.25])
    made[0].bias.data = torch.arange(5) / 8
    return made


def normalized(algorithm: str | None, enabled: bool, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Output, gradients and running statistics of a rank, float64 where they are near the right ones only."""
    if algorithm is not None:
        algorithms.choose = lambda transport, flat: getattr(algorithms, algorithm)
    if enabled:
        repdl.enable()
    return _results(dist.get_rank(), None, dtype)


def normalized_in_groups(groups: list[list[int]]) -> list[torch.Tensor]:
    """The same in the group that the rank is in, of the rows that rank i of all has for rank i of the group."""
    made = [dist.new_group(ranks) for ranks in groups]
    (mine,) = (group for group, ranks in zip(made, groups) if dist.get_rank() in ranks)
    return _results(dist.get_rank(mine), mine, torch.float32)


def _results(of: int, group: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    model: Any = repdl.nn.SyncBatchNorm.convert_sync_batchnorm(layer(), group)
    assert type(model[0]) is repdl.nn.SyncBatchNorm
    x = rows(of, dtype).requires_grad_()
    output = model(x)
    output.backward(uniform(50 + of, *x.shape).to(dtype))
    norm = model[0]
    found = output, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var
    return [tensor.detach().clone() for tensor in found]
