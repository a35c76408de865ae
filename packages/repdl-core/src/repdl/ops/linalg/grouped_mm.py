"""grouped_mm: products of groups of rows with a matrix each, as layers of experts have them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.contract import ContractLike
from repdl.errors import (
    ArgumentError,
    DTypeError,
    UnsupportedError,
    check_device,
    check_dim,
    check_dtype,
    check_range,
    check_size,
)
from repdl.ops.declare import public
from repdl.registry import autocast, computes, functions as _ops

__all__ = ["grouped_mm"]

_OP = "grouped_mm"


@public("matmul", uncached="sizes follow from values")
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: None = None,
    out_dtype: torch.dtype | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """A product for each of G groups, any floating-point dtype. `offs`, (G), int32 or int64, says where each group ends
    in the dimension that is cut; it is read on the host.

    - `(T, K), (G, K, N) -> (T, N)`: each group of rows with its matrix. Rows behind the last group are 0.
    - `(G, M, K), (K, N) -> (G, M, N)` cut along N, joined: `(M, N)`. Columns behind the last group are 0.
    - `(M, K), (K, N) -> (G, M, N)`: sums over a part of K each.
    - `(G, M, K), (G, K, N) -> (G, M, N)`: `bmm`, without `offs`.

    Autocast leaves the dtypes of its operands as they are, as torch's does.

    Raises:
        ShapeError: if an operand is neither 2-D nor 3-D, or sizes differ.
        OutOfRangeError: if `offs` falls, or goes beyond the dimension that it cuts.
        ArgumentError: if `offs` is given for two 3-D operands, or missing for others.
        UnsupportedError: if `bias` is given: torch has none yet.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract, or `out_dtype` is another one.
    """
    check_dim(_OP, (2, 3), mat_a=mat_a, mat_b=mat_b)
    if bias is not None:
        raise UnsupportedError("grouped_mm: bias is given, expected None, as of torch; use repdl.ops.add")
    if out_dtype not in (None, mat_a.dtype):
        raise DTypeError(
            f"grouped_mm: out_dtype is {out_dtype}, expected {mat_a.dtype} (= mat_a.dtype); convert the result"
        )
    check_size(_OP, "mat_b.shape[-2]", mat_b.shape[-2], mat_a.shape[-1], "mat_a.shape[-1]")
    if mat_a.dim() == mat_b.dim() == 3:
        if offs is not None:
            raise ArgumentError("grouped_mm: offs is given, expected None where both operands are 3-D")
        check_size(_OP, "mat_b.shape[0]", mat_b.shape[0], mat_a.shape[0], "mat_a.shape[0]")
        return _batched(mat_a, mat_b, contract)
    if offs is None:
        raise ArgumentError("grouped_mm: offs is None, expected the ends of the groups, as an operand is 2-D")
    whole = mat_a.shape[0] if mat_b.dim() == 3 else mat_b.shape[1] if mat_a.dim() == 3 else mat_a.shape[1]
    sizes = _sizes(offs, whole)
    for what, operand in (("mat_a", mat_a), ("mat_b", mat_b)):
        if operand.dim() == 3:
            check_size(_OP, "offs.shape[0]", len(sizes) - 1, operand.shape[0], f"{what}.shape[0]")
    check_device(_OP, mat_a=mat_a, mat_b=mat_b, offs=offs)
    return _grouped(mat_a, mat_b, sizes, contract)


def _sizes(offs: Tensor, whole: int) -> list[int]:
    """Of the groups, and of what is behind them."""
    check_dim(_OP, 1, offs=offs)
    check_dtype(_OP, (torch.int32, torch.int64), offs=offs)
    do_not_cache()
    ends = [0, *offs.tolist()]
    rises = all(a <= b for a, b in pairwise(ends))
    check_range(_OP, rises and ends[-1] <= whole, lambda: f"offs is {ends[1:]}, expected to rise from 0 to {whole}")
    return [b - a for a, b in pairwise([*ends, whole])]


@autocast.without
def _batched(a: Tensor, b: Tensor, contract: str) -> Tensor:
    return _ops.matmul(a, b, False, False, contract)


@autocast.without
def _grouped(a: Tensor, b: Tensor, sizes: Sequence[int], contract: str) -> Tensor:
    *groups, rest = sizes
    if a.dim() == 2 == b.dim():
        pairs = zip(a.split(sizes, 1)[:-1], b.split(sizes)[:-1])
        products = [_ops.matmul(x, y, False, False, contract) for x, y in pairs]
        return torch.stack(products) if groups else a.new_zeros(0, a.shape[0], b.shape[1])
    if b.dim() == 3:
        cut, pairs, behind = 0, zip(a.split(sizes), b.unbind()), (rest, b.shape[2])
    else:
        cut, pairs, behind = 1, zip(a.unbind(), b.split(sizes, 1)), (a.shape[1], rest)
    products = [_ops.matmul(x, y, False, False, contract) for x, y in pairs]
    return torch.cat([*products, a.new_zeros(behind)], cut)


computes("_grouped_mm", renamed={"mat2": "mat_b"})(grouped_mm)
