"""layer_norm and its backward; the registered op returns the mean and rstd of each row."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_size
from repdl.ops.declare import public
from repdl.ops.normalization._norm import check_normalized_shape, statistics_shape
from repdl.ops.normalization._norm_twice import Rows, narrow, twice, wide
from repdl.registry import FLOAT32_ON_CUDA, as_float, as_ints, computes, define, functions as _ops

__all__ = ["layer_norm"]


def _check(op: str, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None) -> None:
    check_normalized_shape(op, input, normalized_shape, weight=weight, bias=bias)


def _fake(input: Tensor, normalized_shape: Sequence[int]) -> tuple[Tensor, ...]:
    rows = statistics_shape(input, normalized_shape)
    return input.new_empty(input.shape), input.new_empty(rows), input.new_empty(rows)


define(
    "layer_norm",
    "(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps, str contract) "
    "-> (Tensor output, Tensor mean, Tensor rstd)",
    check=_check,
    fake=_fake,
    gradients={("input", "weight", "bias"): "layer_norm_backward"},
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(outputs=("input", "", ""), parameters=(("weight", "bias"),)),
)


def _check_backward(
    op: str,
    grad: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
) -> None:
    check_normalized_shape(op, input, normalized_shape, weight=weight)
    check_size(op, "grad.shape", grad.shape, input.shape, "input.shape")
    rows = tuple(statistics_shape(input, normalized_shape))
    for name, tensor in (("mean", mean), ("rstd", rstd)):
        check_size(op, f"{name}.shape", tensor.shape, rows, "input.shape, with 1 for normalized_shape")


def _twice(
    grads: tuple[Tensor, ...],
    grad: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    contract: str,
) -> tuple[Tensor | None, ...]:
    g, x, scale, *sources = (wide(t) for t in (grad, input, weight, *grads))
    lead = x.dim() - len(normalized_shape)
    rows = Rows(x, mean, rstd, range(lead, x.dim()), contract)
    return narrow(twice(rows, sources, g, scale, range(lead)), (grad, input, weight))


define(
    "layer_norm_backward",
    "(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, str contract) "
    "-> (Tensor, Tensor, Tensor)",
    check=_check_backward,
    fake=lambda input, normalized_shape: (
        input.new_empty(input.shape),
        *(input.new_empty(normalized_shape) for _ in "wb"),
    ),
    dtypes=Dtypes(outputs=("grad", "weight", "weight"), statistics=("mean", "rstd"), parameters=(("weight",),)),
    gradients={("grad", "input", "weight"): _twice},
    is_slope=False,
    family="layer_norm",
)


@computes("layer_norm", ignored=("cudnn_enabled", "cudnn_enable"))
@public("layer_norm")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Normalise the last dimensions: `(..., *normalized_shape) -> (..., *normalized_shape)`, any floating-point dtype.

    Each row gets mean 0 and variance 1, then is multiplied by `weight` and moved by `bias`
    (`normalized_shape`), if given.

    Raises:
        ShapeError: if shapes do not fit together, or `normalized_shape` is empty.
    """
    op = "layer_norm"
    shape = as_ints(op, "normalized_shape", normalized_shape)
    return _ops.layer_norm(input, shape, weight, bias, as_float(op, "eps", eps), contract)[0]
