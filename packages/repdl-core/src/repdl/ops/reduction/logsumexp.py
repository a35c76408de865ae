"""logsumexp: the logarithm of a sum of exponentials, a formula."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import UnsupportedError
from repdl.ops.common import as_numpy, constant, floating, is_whole, normalize_dims, reduced_shape, rows_of
from repdl.ops.declare import public
from repdl.ops.reduction.sum import check_dims
from repdl.registry import FLOAT32_ON_CUDA, composite, functions as _ops

__all__ = ["logsumexp"]


def _logsumexp_formula(input: Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> Tensor:
    rows = rows_of(input, dim)
    if rows.shape[-1] == 0:
        lowest = constant(-float("inf"), input.dtype, input.device)
        rows = torch.cat([lowest.expand(*rows.shape[:-1], 1), rows], -1)
    largest = _ops.amax(rows.detach())
    finite = _ops.where(largest.isinf(), constant(0.0, input.dtype, input.device), largest, contract)
    total = _ops.sum(_ops.exp(_ops.sub(rows, finite.unsqueeze(-1), contract)), [rows.dim() - 1], False, contract)
    found = _ops.add(_ops.log(total), finite, contract)
    return found.reshape(reduced_shape(input.shape, dim, keepdim))


composite(
    "logsumexp",
    "(Tensor input, int[] dim, bool keepdim, str contract) -> Tensor",
    _logsumexp_formula,
    calls=("amax", "where", "sub", "exp", "sum", "log", "add"),
    check=check_dims,
    dtypes=Dtypes(),
    autocast=FLOAT32_ON_CUDA,
    family="softmax",
)


@public("softmax")
def logsumexp(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`log(sum(exp(x - m))) + m` over the dimensions in `dim`, m the largest element, or 0 if that is infinite.

    Any floating-point dtype; integers become floats. The logarithm of no elements is -inf.

    Raises:
        UnsupportedError: if `dim` is None.
    """
    dim, keepdim = as_numpy("logsumexp", dim, keepdim, axis, keepdims)
    if dim is None:
        raise UnsupportedError("logsumexp: dim is None, expected the dimensions to sum over; pass dim=")
    dims = normalize_dims("logsumexp", dim, input.dim())
    if is_whole(input.dtype):
        input = floating(input, torch.get_default_dtype())
    return _ops.logsumexp(input, dims, keepdim, contract)
