"""mm, bmm and matmul: one registered op, `matmul`."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_dtype, check_size
from repdl.ops.common import sum_to
from repdl.ops.declare import public
from repdl.registry import LOWER, computes, define, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = ["bmm", "matmul", "mm"]


def _check(input: Tensor, mat2: Tensor, transA: bool, transB: bool) -> None:
    if input.dim() < 2 or mat2.dim() < 2:
        check("matmul", False, lambda: f"input.dim() is {input.dim()}, mat2.dim() is {mat2.dim()}, expected 2 or more")
    inner = input.shape[-2 if transA else -1]
    axis = mat2.dim() - (1 if transB else 2)
    if mat2.shape[axis] != inner:
        check_size(
            "matmul",
            f"mat2.shape[{axis}]",
            mat2.shape[axis],
            inner,
            f"input.shape[{input.dim() - (2 if transA else 1)}]",
        )
    try:
        if input.dim() > 2 or mat2.dim() > 2:
            broadcast_shapes(input.shape[:-2], mat2.shape[:-2])
    except RuntimeError:
        check(
            "matmul",
            False,
            lambda: (
                f"batch dimensions {tuple(input.shape[:-2])} and {tuple(mat2.shape[:-2])} do not broadcast, "
                f"expected equal sizes or 1"
            ),
        )


def _fake(input: Tensor, mat2: Tensor, transA: bool, transB: bool) -> Tensor:
    batch = broadcast_shapes(input.shape[:-2], mat2.shape[:-2])
    return input.new_empty((*batch, input.shape[-1 if transA else -2], mat2.shape[-2 if transB else -1]))


def _to_input(g: Tensor, mat2: Tensor, input_shape: torch.Size, transA: bool, transB: bool, contract: str) -> Tensor:
    operands = (mat2, g, transB, True) if transA else (g, mat2, False, not transB)
    return sum_to(_ops.matmul(*operands, contract), input_shape, contract)


def _to_mat2(g: Tensor, input: Tensor, mat2_shape: torch.Size, transA: bool, transB: bool, contract: str) -> Tensor:
    operands = (g, input, True, transA) if transB else (input, g, not transA, False)
    return sum_to(_ops.matmul(*operands, contract), mat2_shape, contract)


define(
    "matmul",
    "(Tensor input, Tensor mat2, bool transA, bool transB, str contract) -> Tensor",
    check=_check,
    fake=_fake,
    gradients={"input": _to_input, "mat2": _to_mat2},
    autocast=LOWER,
    dtypes=Dtypes(),
)


@public("matmul")
def mm(
    input: Tensor, mat2: Tensor, transA: bool = False, transB: bool = False, *, contract: ContractLike = None
) -> Tensor:
    """Matrix product `(M, K) @ (K, N) -> (M, N)`, any floating-point dtype.

    Args:
        input: (M, K), or (K, M) with `transA`.
        mat2: (K, N), or (N, K) with `transB`.

    Raises:
        ShapeError: if an operand is not 2-D or the inner dimensions differ.
    """
    check_dim("mm", 2, input=input, mat2=mat2)
    return _ops.matmul(input, mat2, transA, transB, contract)


@public("matmul")
def bmm(input: Tensor, mat2: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Batched matrix product `(B, M, K) @ (B, K, N) -> (B, M, N)`, any floating-point dtype.

    Raises:
        ShapeError: if an operand is not 3-D, or batch or inner dimensions differ.
    """
    check_dim("bmm", 3, input=input, mat2=mat2)
    check_size("bmm", "mat2.shape[0]", mat2.shape[0], input.shape[0], "input.shape[0]")
    return _ops.matmul(input, mat2, False, False, contract)


@public("matmul")
def matmul(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Matrix product with torch's broadcasting, any floating-point dtype.

    `(K) @ (K) -> ()`, `(M, K) @ (K) -> (M)`, `(..., M, K) @ (..., K, N) -> (..., M, N)`.

    Raises:
        ShapeError: if an operand is 0-D, the inner dimensions differ or the batch
            dimensions do not broadcast.
    """
    check("matmul", input.dim() > 0 and other.dim() > 0, "an operand is 0-D, expected 1-D or more; use mul")
    a = input.unsqueeze(0) if input.dim() == 1 else input
    b = other.unsqueeze(1) if other.dim() == 1 else other
    if a.dim() > 2 and b.dim() == 2:
        check_size("matmul", "other.shape[0]", b.shape[0], a.shape[-1], f"input.shape[{input.dim() - 1}]")
        output = _ops.matmul(a.reshape(a.shape[:-1].numel(), a.shape[-1]), b, False, False, contract)
        output = output.reshape(*a.shape[:-1], b.shape[1])
    else:
        output = _ops.matmul(a, b, False, False, contract)
    if input.dim() == 1:
        output = output.squeeze(-2)
    return output.squeeze(-1) if other.dim() == 1 else output


_EXACT = 1024
"""How many products of two int8 a float32 sums without rounding: each is at most 2**14."""


@computes("_int_mm")
def _aten_int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of int8 matrices in int32. The libraries that torch calls may saturate sums of two in 16 bits."""
    check_dtype("_int_mm", (torch.int8,), input=input, mat2=mat2)
    check_dim("_int_mm", 2, input=input, mat2=mat2)
    check_size("_int_mm", "mat2.shape[0]", mat2.shape[0], input.shape[1], "input.shape[1]")
    parts = zip(input.split(_EXACT, 1), mat2.split(_EXACT, 0))
    products = [mm(a.to(torch.float32), b.to(torch.float32)).to(torch.int32) for a, b in parts]
    return functools.reduce(torch.add, products)
