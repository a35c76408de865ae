"""group_norm and its backward, and instance_norm, which is group_norm with a group a channel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.common import narrowed
from repdl.ops.declare import public
from repdl.ops.normalization._norm_twice import Rows, narrow, twice, wide
from repdl.ops.normalization.batch_norm import batch_norm, check_statistics, new_statistics
from repdl.ops.reduction.sum import mean
from repdl.registry import FLOAT32_ON_CUDA, as_float, as_int, computes, define, functions as _ops
from repdl.tensors import layout

__all__ = ["group_norm", "instance_norm"]


def _check_groups(op: str, input: Tensor, num_groups: int, **vectors: Tensor | None) -> None:
    check(op, input.dim() >= 2, lambda: f"input.dim() is {input.dim()}, expected 2 or more (N, C, ...)")
    channels = input.shape[1]
    check(op, num_groups > 0, lambda: f"num_groups is {num_groups}, expected a positive number")
    check(
        op,
        channels % num_groups == 0,
        lambda: f"num_groups is {num_groups}, expected a divisor of {channels} (= input.shape[1], the channels)",
    )
    check_dim(op, 1, **vectors)
    for name, vector in vectors.items():
        if vector is not None:
            check_size(op, f"{name}.shape[0]", vector.shape[0], channels, "input.shape[1], the channels")


def _fake(input: Tensor, num_groups: int) -> tuple[Tensor, ...]:
    output = layout.images(input.shape, input).empty(input)
    return output, *(input.new_empty(input.shape[0], num_groups) for _ in "mr")


define(
    "group_norm",
    "(Tensor input, SymInt num_groups, Tensor? weight, Tensor? bias, float eps, str contract) "
    "-> (Tensor output, Tensor mean, Tensor rstd)",
    check=lambda op, input, num_groups, weight, bias: _check_groups(op, input, num_groups, weight=weight, bias=bias),
    fake=_fake,
    gradients={("input", "weight", "bias"): "group_norm_backward"},
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(outputs=("input", "", ""), parameters=(("weight", "bias"),)),
)


def _check_backward(
    op: str, grad: Tensor, input: Tensor, num_groups: int, mean: Tensor, rstd: Tensor, weight: Tensor | None
) -> None:
    _check_groups(op, input, num_groups, weight=weight)
    check_size(op, "grad.shape", grad.shape, input.shape, "input.shape")
    for name, tensor in (("mean", mean), ("rstd", rstd)):
        check_size(op, f"{name}.shape", tensor.shape, (input.shape[0], num_groups), "(N, num_groups)")


def _twice(
    grads: tuple[Tensor, ...],
    grad: Tensor,
    input: Tensor,
    num_groups: int,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    contract: str,
) -> tuple[Tensor | None, ...]:
    ones = [1 for _ in input.shape[2:]]
    each = input.shape[1] // num_groups

    def split(tensor: Tensor | None) -> Any:
        """(N, C, ...) as (N, groups, C / groups, ...)."""
        return None if tensor is None else tensor.reshape(input.shape[0], num_groups, each, *input.shape[2:])

    def of_channels(vector: Tensor | None) -> Any:
        return None if vector is None else vector.reshape(num_groups, each, *ones)

    g, x, scale, *sources = (wide(t) for t in (grad, input, weight, *grads))
    mean, rstd = (t.reshape(*t.shape, 1, *ones) for t in (mean, rstd))
    rows = Rows(split(x), mean, rstd, range(2, x.dim() + 1), contract)
    sources = [split(sources[0]), *(of_channels(t) for t in sources[1:])]
    results = twice(rows, sources, split(g), of_channels(scale), [0, *range(3, x.dim() + 1)])
    given: tuple[Any, ...] = grad, input, weight
    return narrow([None if t is None else t.reshape(like.shape) for t, like in zip(results, given)], given)


define(
    "group_norm_backward",
    "(Tensor grad, Tensor input, SymInt num_groups, Tensor mean, Tensor rstd, Tensor? weight, str contract) "
    "-> (Tensor, Tensor, Tensor)",
    check=_check_backward,
    fake=lambda input: (
        layout.images(input.shape, input).empty(input),
        *(input.new_empty(input.shape[1]) for _ in "wb"),
    ),
    dtypes=Dtypes(outputs=("grad", "weight", "weight"), statistics=("mean", "rstd"), parameters=(("weight",),)),
    gradients={("grad", "input", "weight"): _twice},
    is_slope=False,
    family="group_norm",
)


@computes("group_norm", ignored=("cudnn_enabled", "cudnn_enable"))
@public("group_norm")
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Normalise groups of channels: `(N, C, ...) -> (N, C, ...)`, any floating-point dtype.

    The elements of each of the `num_groups` groups get mean 0 and variance 1; each channel
    is then multiplied by its `weight` and moved by its `bias` (C), if given.

    Raises:
        ShapeError: if shapes do not fit together, `num_groups` does not divide C, or the batch
            has one value a group only.
    """
    op = "group_norm"
    groups = as_int(op, "num_groups", num_groups)
    epsilon = as_float(op, "eps", eps)
    check(
        op,
        input.numel() != groups,
        lambda: f"input has one value a group (shape {tuple(input.shape)}), expected 2 or more",
    )
    return _ops.group_norm(input, groups, weight, bias, epsilon, contract)[0]


@computes("instance_norm", ignored=("cudnn_enabled", "cudnn_enable"))
@public("group_norm")
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Normalise each channel of each batch element: `(N, C, ...) -> (N, C, ...)`, any floating-point dtype.

    `group_norm` with a group a channel, and the means over the batch of what `batch_norm` makes of
    `running_mean` and `running_var` (C), if given, go there in place; without `use_input_stats`,
    `batch_norm` with those, which stay.

    Raises:
        ShapeError: if shapes do not fit together, statistics are missing, or a channel has one value only.
    """
    op = "instance_norm"
    check(op, input.dim() > 2, lambda: f"input.dim() is {input.dim()}, expected 3 or more (N, C, ...)")
    rows = input.contiguous().flatten(2)  # as torch, whose output is row-major
    if not use_input_stats:
        output = batch_norm(rows, running_mean, running_var, weight, bias, False, momentum, eps, contract=contract)
        return output.reshape(input.shape)
    share, epsilon = as_float(op, "momentum", momentum), as_float(op, "eps", eps)
    check(
        op,
        input.shape[2:].numel() != 1,
        lambda: f"input has one value a channel (shape {tuple(input.shape)}), expected 2 or more",
    )
    check_statistics(op, input.shape[1], running_mean, running_var)
    output = _ops.group_norm(rows, input.shape[1] or 1, weight, bias, epsilon, contract)[0]
    output = narrowed(output, rows.dtype)  # autocast, which has group_norm on its list, leaves instance_norm alone
    if running_mean is not None and running_var is not None:
        _track(rows, running_mean, running_var, share, epsilon, contract)
    return output.reshape(input.shape)


@torch.no_grad()
def _track(
    input: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float, contract: str
) -> None:
    """New running statistics: each batch element's own, as a channel more of batch_norm, then their means."""
    batch, channels = input.shape[:2]
    rows = input.detach().reshape(1, batch * channels, input.shape[2])
    made = new_statistics(rows, running_mean.repeat(batch), running_var.repeat(batch), momentum, eps, contract)
    for running, new in zip((running_mean, running_var), made):
        running.copy_(mean(new.reshape(batch, channels), 0, contract=contract))
