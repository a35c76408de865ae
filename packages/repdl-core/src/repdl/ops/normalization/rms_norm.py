"""rms_norm and its backward; the registered op returns the rstd of each row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, FLOATS_16_BIT, Dtypes
from repdl.errors import check_size
from repdl.ops.common import narrowed
from repdl.ops.declare import public
from repdl.ops.normalization._norm import check_normalized_shape, statistics_shape
from repdl.ops.normalization._norm_twice import Rows, narrow, twice, wide
from repdl.registry import FLOAT32_ON_CUDA, as_float, as_ints, define, functions as _ops
from repdl.tensors import layout

__all__ = ["rms_norm"]


def _fake(input: Tensor, normalized_shape: Sequence[int]) -> tuple[Tensor, ...]:
    output = layout.images(input.shape, input).empty(input)
    return output, input.new_empty(statistics_shape(input, normalized_shape))


define(
    "rms_norm",
    "(Tensor input, SymInt[] normalized_shape, Tensor? weight, float eps, str contract) "
    "-> (Tensor output, Tensor rstd)",
    check=lambda op, input, normalized_shape, weight: check_normalized_shape(
        op, input, normalized_shape, weight=weight
    ),
    fake=_fake,
    gradients={("input", "weight"): "rms_norm_backward"},
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(outputs=("input", ""), parameters=(("weight",),)),
)


def _check_backward(
    op: str, grad: Tensor, input: Tensor, normalized_shape: Sequence[int], rstd: Tensor, weight: Tensor | None
) -> None:
    check_normalized_shape(op, input, normalized_shape, weight=weight)
    check_size(op, "grad.shape", grad.shape, input.shape, "input.shape")
    rows = tuple(statistics_shape(input, normalized_shape))
    check_size(op, "rstd.shape", rstd.shape, rows, "input.shape, with 1 for normalized_shape")


def _twice(
    grads: tuple[Tensor, ...],
    grad: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    contract: str,
) -> tuple[Tensor | None, ...]:
    g, x, scale, *sources = (wide(t) for t in (grad, input, weight, *grads))
    lead = x.dim() - len(normalized_shape)
    rows = Rows(x, None, rstd, range(lead, x.dim()), contract)
    return narrow(twice(rows, [*sources, None], g, scale, range(lead)), (grad, input, weight))


define(
    "rms_norm_backward",
    "(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor rstd, Tensor? weight, str contract) "
    "-> (Tensor, Tensor)",
    check=_check_backward,
    fake=lambda grad, input, normalized_shape: (
        layout.images(input.shape, grad).empty(input),
        input.new_empty(normalized_shape),
    ),
    dtypes=Dtypes(outputs=("grad", "weight"), statistics=("rstd",), parameters=(("weight",),)),
    gradients={("grad", "input", "weight"): _twice},
    is_slope=False,
    family="rms_norm",
)


@public("rms_norm")
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Divide the last dimensions by their root mean square:
    `(..., *normalized_shape) -> (..., *normalized_shape)`, any floating-point dtype.

    The result is multiplied by `weight` (`normalized_shape`), if given, of any dtype that the arithmetic holds;
    `eps` None is 2**-23, in float64 2**-52.

    Raises:
        ShapeError: if shapes do not fit together, or `normalized_shape` is empty.
    """
    op = "rms_norm"
    shape = as_ints(op, "normalized_shape", normalized_shape)
    default = 2.0**-52 if input.dtype is torch.float64 else 2.0**-23
    if weight is not None and weight.dtype is not input.dtype and {input.dtype, weight.dtype} <= set(ALL):
        arithmetic = torch.float32 if input.dtype in FLOATS_16_BIT else input.dtype
        if weight.dtype.itemsize <= arithmetic.itemsize:
            weight = narrowed(weight, arithmetic)  # exactly
    epsilon = default if eps is None else as_float(op, "eps", eps)
    return _ops.rms_norm(input, shape, weight, epsilon, contract)[0]
