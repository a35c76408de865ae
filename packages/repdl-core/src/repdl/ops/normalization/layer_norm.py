"""layer_norm and its backward; the registered op returns the mean and rstd of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl import registry
from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_size
from repdl.ops.declare.public import public
from repdl.ops.normalization._norm import (
    affine_backward,
    check_normalized_shape,
    setup_affine,
    setup_affine_backward,
    statistics_shape,
)
from repdl.ops.normalization._norm_twice import Rows, narrow, twice, wide
from repdl.registry.arguments import as_float, as_ints
from repdl.registry.aten import computes
from repdl.registry.autocast import FLOAT32_ON_CUDA

__all__ = ["layer_norm"]

Optional = torch.Tensor | None


def _check(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, bias: Optional, eps: float, contract: str
) -> None:
    check_normalized_shape("layer_norm", input, normalized_shape, weight=weight, bias=bias)


def _fake(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Optional, bias: Optional, eps: float, contract: str
) -> tuple[torch.Tensor, ...]:
    rows = statistics_shape(input, normalized_shape)
    return input.new_empty(input.shape), input.new_empty(rows), input.new_empty(rows)


_layer_norm = registry.define(
    "layer_norm",
    "(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps, str contract) "
    "-> (Tensor, Tensor, Tensor)",
    check=_check,
    fake=_fake,
    setup_context=setup_affine,
    backward=affine_backward("layer_norm_backward"),
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(outputs=("input", "", ""), parameters=(("weight", "bias"),)),
)


def _check_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: Optional,
    contract: str,
) -> None:
    op = "layer_norm_backward"
    check_normalized_shape(op, input, normalized_shape, weight=weight)
    check_size(op, "grad.shape", tuple(grad.shape), tuple(input.shape), "input.shape")
    rows = tuple(statistics_shape(input, normalized_shape))
    for name, tensor in (("mean", mean), ("rstd", rstd)):
        check_size(op, f"{name}.shape", tuple(tensor.shape), rows, "input.shape, with 1 for normalized_shape")


def _twice(ctx: Any, *cotangents: Any) -> Any:
    grad, input, mean, rstd, weight = ctx.saved_tensors
    g, x, scale, *sources = (wide(t) for t in (grad, input, weight, *cotangents))
    lead = x.dim() - len(ctx.rows)
    rows = Rows(x, mean, rstd, range(lead, x.dim()), ctx.contract)
    to_grad, to_input, to_weight = twice(rows, sources, g, scale, range(lead))
    return narrow(to_grad, grad), narrow(to_input, input), None, None, None, narrow(to_weight, weight), None


registry.define(
    "layer_norm_backward",
    "(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, str contract) "
    "-> (Tensor, Tensor, Tensor)",
    check=_check_backward,
    fake=lambda grad, input, shape, *_: (input.new_empty(input.shape), *(input.new_empty(shape) for _ in "wb")),
    dtypes=Dtypes(outputs=("grad", "weight", "weight"), statistics=("mean", "rstd"), parameters=(("weight",),)),
    setup_context=setup_affine_backward,
    backward=_twice,
    is_slope=False,
    family="layer_norm",
)


@computes("layer_norm", ignored=("cudnn_enabled", "cudnn_enable"))
@public("layer_norm")
def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    contract: ContractLike = None,
) -> torch.Tensor:
    """Normalise the last dimensions: `(..., *normalized_shape) -> (..., *normalized_shape)`, any floating-point dtype.

    Each row gets mean 0 and variance 1, then is multiplied by `weight` and moved by `bias`
    (`normalized_shape`), if given.

    Raises:
        ShapeError: if shapes do not fit together, or `normalized_shape` is empty.
    """
    op = "layer_norm"
    shape = as_ints(op, "normalized_shape", normalized_shape)
    return _layer_norm(input, shape, weight, bias, as_float(op, "eps", eps), contract)[0]
