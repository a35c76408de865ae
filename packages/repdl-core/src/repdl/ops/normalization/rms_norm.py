"""rms_norm and its backward; the registered op returns the rstd of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl import registry
from repdl.contract import ContractLike
from repdl.dtypes import ALL, FLOATS_16_BIT, Dtypes
from repdl.errors import check_size
from repdl.ops.declare.public import public
from repdl.ops.normalization._norm import check_normalized_shape, statistics_shape
from repdl.ops.normalization._norm_twice import Rows, narrow, twice, wide
from repdl.ops.pointwise.cast import narrowed
from repdl.registry.arguments import as_float, as_ints
from repdl.registry.autocast import FLOAT32_ON_CUDA
from repdl.tensors import layout

__all__ = ["rms_norm"]

Optional = torch.Tensor | None


def _check(input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, eps: float, contract: str) -> None:
    check_normalized_shape("rms_norm", input, normalized_shape, weight=weight)


def _fake(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    output = layout.images(input.shape, input).empty(input)
    return output, input.new_empty(statistics_shape(input, normalized_shape))


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, ctx.normalized_shape, weight, _, ctx.contract = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(input, weight, output[1])


def _backward(ctx: Any, grad: torch.Tensor, *_: Any) -> Any:
    input, weight, rstd = ctx.saved_tensors
    grad_input, grad_weight = _rms_norm_backward(grad, input, ctx.normalized_shape, rstd, weight, ctx.contract)
    return grad_input, None, grad_weight if weight is not None else None, None, None


_rms_norm = registry.define(
    "rms_norm",
    "(Tensor input, SymInt[] normalized_shape, Tensor? weight, float eps, str contract) -> (Tensor, Tensor)",
    check=_check,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(outputs=("input", ""), parameters=(("weight",),)),
)


def _check_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> None:
    op = "rms_norm_backward"
    check_normalized_shape(op, input, normalized_shape, weight=weight)
    check_size(op, "grad.shape", tuple(grad.shape), tuple(input.shape), "input.shape")
    rows = tuple(statistics_shape(input, normalized_shape))
    check_size(op, "rstd.shape", tuple(rstd.shape), rows, "input.shape, with 1 for normalized_shape")


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    grad, input, ctx.normalized_shape, rstd, weight, ctx.contract = inputs
    ctx.save_for_backward(grad, input, rstd, weight)


def _twice(ctx: Any, *cotangents: Any) -> Any:
    grad, input, rstd, weight = ctx.saved_tensors
    g, x, scale, *sources = (wide(t) for t in (grad, input, weight, *cotangents))
    lead = x.dim() - len(ctx.normalized_shape)
    rows = Rows(x, None, rstd, range(lead, x.dim()), ctx.contract)
    to_grad, to_input, to_weight = twice(rows, [*sources, None], g, scale, range(lead))
    return narrow(to_grad, grad), narrow(to_input, input), None, None, narrow(to_weight, weight), None


_rms_norm_backward = registry.define(
    "rms_norm_backward",
    "(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor rstd, Tensor? weight, str contract) "
    "-> (Tensor, Tensor)",
    check=_check_backward,
    fake=lambda grad, input, shape, *_: (layout.images(input.shape, grad).empty(input), input.new_empty(shape)),
    dtypes=Dtypes(outputs=("grad", "weight"), statistics=("rstd",), parameters=(("weight",),)),
    setup_context=_setup_backward,
    backward=_twice,
    is_slope=False,
    family="rms_norm",
)


@public("rms_norm")
def rms_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    contract: ContractLike = None,
) -> torch.Tensor:
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
    return _rms_norm(input, shape, weight, epsilon, contract)[0]
