"""batch_norm and its backward; the registered op returns the new running statistics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repdl.callcache import copy_result
from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_least_dim, check_size
from repdl.ops.declare import public
from repdl.ops.losses._loss import check_no_grad
from repdl.ops.normalization._norm_twice import Rows, narrow, twice, wide
from repdl.registry import as_float, computes, define, functions as _ops
from repdl.tensors import layout
from repdl.tensors.overlap import check_apart

__all__ = ["batch_norm"]


def _check_channels(op: str, channels: int, **vectors: Tensor | None) -> None:
    check_dim(op, 1, **vectors)
    for name, vector in vectors.items():
        if vector is not None:
            check_size(op, f"{name}.shape[0]", vector.shape[0], channels, "input.shape[1], the channels")


def _check_both(op: str, running_mean: Tensor | None, running_var: Tensor | None) -> None:
    both = (running_mean is None) == (running_var is None)
    check(op, both, "only one of running_mean and running_var is given, expected both or neither")


def _check(
    op: str,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
) -> None:
    vectors = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    check_least_dim(op, 2, "(N, C, ...)", input=input)
    _check_channels(op, input.shape[1], **vectors)
    _check_both(op, running_mean, running_var)
    check(
        op,
        training or running_mean is not None,
        "training is False without running_mean and running_var, expected both; or pass training=True",
    )
    single = training and input.shape[1] > 0 and input.numel() == input.shape[1]
    shape = tuple(input.shape)
    expected = "2 or more, or none, in training"
    check(op, not single, lambda: f"input has 1 value a channel (shape {shape}), expected {expected}")


def _fake(input: Tensor, running_mean: Tensor | None, training: bool) -> tuple[Tensor, ...]:
    channels = input.shape[1]
    new = channels if training and running_mean is not None else 0
    # As torch: strides that both formats have are row-major here, in the backward they are not.
    sources = () if input.is_contiguous() else (input,)
    output = layout.images(input.shape, *sources).empty(input)
    return (output, *(input.new_empty(k) for k in (channels, channels, new, new)))


define(
    "batch_norm",
    "(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool training, "
    "float momentum, float eps, str contract) "
    "-> (Tensor output, Tensor mean, Tensor invstd, Tensor new_mean, Tensor new_var)",
    check=_check,
    fake=_fake,
    gradients={("input", "weight", "bias"): "batch_norm_backward"},
    fixed=("running_mean", "running_var"),
    dtypes=Dtypes(
        outputs=("input", "", "", "running_mean", "running_var"),
        parameters=(("weight", "bias"), ("running_mean", "running_var")),
    ),
)


def _check_backward(op: str, grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, invstd: Tensor) -> None:
    check_least_dim(op, 2, "(N, C, ...)", input=input)
    check_size(op, "grad.shape", grad.shape, input.shape, "input.shape")
    _check_channels(op, input.shape[1], weight=weight, mean=mean, invstd=invstd)


def _twice(
    grads: tuple[Tensor, ...],
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    training: bool,
    contract: str,
) -> tuple[Tensor | None, ...]:
    g, x, scale, *sources = (wide(t) for t in (grad, input, weight, *grads))

    def of_channels(vector: Tensor | None) -> Any:
        return None if vector is None else vector.reshape(-1, *(1 for _ in x.shape[2:]))

    dims = [0, *range(2, x.dim())]
    rows = Rows(x, of_channels(mean), of_channels(invstd), dims, contract, fixed=not training)
    sources[1:] = [of_channels(t) for t in sources[1:]]
    return narrow(twice(rows, sources, g, of_channels(scale), dims), (grad, input, weight))


define(
    "batch_norm_backward",
    "(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor invstd, bool training, str contract) "
    "-> (Tensor, Tensor, Tensor)",
    check=_check_backward,
    fake=lambda input: (
        layout.images(input.shape, input).empty(input),
        *(input.new_empty(input.shape[1]) for _ in "wb"),
    ),
    dtypes=Dtypes(outputs=("grad", "weight", "weight"), statistics=("mean", "invstd"), parameters=(("weight",),)),
    gradients={("grad", "input", "weight"): _twice},
    is_slope=False,
    family="batch_norm",
)


def check_statistics(op: str, channels: int, running_mean: Tensor | None, running_var: Tensor | None) -> None:
    """Raise unless both are vectors of `channels` elements that can be written, or both are None."""
    _check_both(op, running_mean, running_var)
    statistics = {"running_mean": running_mean, "running_var": running_var}
    _check_channels(op, channels, **statistics)
    check_no_grad(op, **statistics)
    _check_writable(op, **statistics)


def new_statistics(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float, eps: float, contract: str
) -> tuple[Tensor, ...]:
    """Where training with `input` moves the running statistics."""
    return _ops.batch_norm(input, running_mean, running_var, None, None, True, momentum, eps, contract)[3:]


def _check_writable(op: str, **statistics: Tensor | None) -> None:
    """Raise before anything is changed where a copy into the statistics would fail."""
    if torch.compiler.is_compiling():
        return
    for name, tensor in statistics.items():
        if tensor is None or tensor.layout is not torch.strided:
            continue
        check_apart(op, **{name: tensor})
        check(
            op,
            not tensor.is_inference() or torch.is_inference_mode_enabled(),
            lambda: f"{name} is an inference tensor, expected a normal one outside inference mode; use .clone()",
        )


@public("batch_norm")
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Normalise each channel: `(N, C, ...) -> (N, C, ...)`, any floating-point dtype.

    In training with the statistics of the batch, which `running_mean` and `running_var`
    (C), if given, move towards in place by `momentum`; otherwise with those.

    Raises:
        ShapeError: if shapes do not fit together, statistics are missing, or training has
            one value a channel; without any, the running statistics stay.
    """
    op = "batch_norm"
    momentum, eps = as_float(op, "momentum", momentum), as_float(op, "eps", eps)
    check(op, eps > 0 or (eps == 0 and not training), lambda: f"eps is {eps}, expected a positive number")
    check_no_grad(op, running_mean=running_mean, running_var=running_var)
    if training:
        _check_writable(op, running_mean=running_mean, running_var=running_var)
    output, _, _, new_mean, new_var = _ops.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps, contract
    )
    if training and running_mean is not None and running_var is not None and input.numel():
        copy_result(new_mean, running_mean)
        copy_result(new_var, running_var)
    return output


computes("batch_norm", ignored=("cudnn_enabled", "cudnn_enable"))(batch_norm)
