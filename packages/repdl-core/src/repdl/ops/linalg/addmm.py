"""addmm: a matrix product and a matrix to add, a formula over registered ops."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.dtypes.rounding import is_zero, rounded
from repdl.errors import check_broadcasts_to, check_dim, check_size
from repdl.ops.common import constant, item, narrowed, sum_to, widened
from repdl.ops.declare import public
from repdl.registry import LOWER, OPS, as_float, composite, functions as _ops

__all__ = ["addmm"]


def _check(input: Tensor, mat1: Tensor, mat2: Tensor) -> None:
    check_dim("addmm", (2, 3), mat1=mat1, mat2=mat2)
    check_dim("addmm", mat1.dim(), mat2=mat2)
    check_size("addmm", "mat2.shape[:-2]", mat2.shape[:-2], mat1.shape[:-2], "mat1.shape[:-2]")
    if mat1.shape[-1] != mat2.shape[-2]:
        check_size("addmm", "mat1.shape[-1]", mat1.shape[-1], mat2.shape[-2], "mat2.shape[-2]")
    check_broadcasts_to("addmm", (*mat1.shape[:-1], mat2.shape[-1]), input=input)


def _scaled(tensor: Tensor, number: float, contract: str) -> Tensor:
    if number == 1:
        return tensor
    return _ops.mul(tensor, constant(number, tensor.dtype, tensor.device), contract)


def _formula(input: Tensor, mat1: Tensor, mat2: Tensor, beta: float, alpha: float, contract: str) -> Tensor:
    product = _scaled(_ops.matmul(mat1, mat2, False, False, contract), alpha, contract)
    if is_zero(beta):
        return product
    return _ops.add(_scaled(input, beta, contract), product, contract)


def _fake(input: Tensor, mat1: Tensor, mat2: Tensor, beta: float, contract: str) -> Tensor:
    product = OPS["matmul"].fake(mat1, mat2, False, False, contract)
    return product if is_zero(beta) else OPS["add"].fake(input, product, contract)


def _to_input(wide: Tensor, g: Tensor, input_shape: torch.Size, beta: float, contract: str) -> Tensor:
    return narrowed(_scaled(sum_to(wide, input_shape, contract), beta, contract), g.dtype)


def _to_mat1(product: Tensor, mat2: Tensor, contract: str) -> Tensor:
    dtype, (wide,) = widened(mat2)
    return narrowed(_ops.matmul(product, wide, False, True, contract), dtype)


def _to_mat2(product: Tensor, mat1: Tensor, contract: str) -> Tensor:
    dtype, (wide,) = widened(mat1)
    return narrowed(_ops.matmul(wide, product, True, False, contract), dtype)


composite(
    "addmm",
    "(Tensor input, Tensor mat1, Tensor mat2, float beta, float alpha, str contract) -> Tensor",
    _formula,
    calls=("matmul", "mul", "add"),
    check=_check,
    fake=_fake,
    gradients={
        "wide": lambda g: widened(g)[1][0],
        "product": lambda wide, alpha, contract: _scaled(wide, alpha, contract),
        "input": _to_input,
        "mat1": _to_mat1,
        "mat2": _to_mat2,
    },
    dtypes=Dtypes(),
    autocast=LOWER,
)


def _scalar(op: str, name: str, value: float, input: Tensor) -> float:
    """beta or alpha as a double; an integer that is none is rounded once to the dtype of the arithmetic."""
    if isinstance(value, Tensor) and value.dim() == 0 and not value.requires_grad:
        value = item(value)
    if isinstance(value, int) and not -(2**53) <= value <= 2**53:
        return rounded(value, torch.float64 if input.dtype is torch.float64 else torch.float32)
    return as_float(op, name, value)


def added(op: str, input: Tensor, mat1: Tensor, mat2: Tensor, beta: float, alpha: float, contract: str) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)` of matrices, or of batches of them, for the function `op`."""
    beta, alpha = (_scalar(op, n, v, input) for n, v in (("beta", beta), ("alpha", alpha)))
    return _ops.addmm(input, mat1, mat2, beta, alpha, contract)


@public("addmm")
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, contract: ContractLike = None
) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`: `(M, K) @ (K, N) -> (M, N)`, any floating-point dtype.

    `input` broadcasts to (M, N). With beta = 0 it is not read, so NaN in it does not spread.

    Raises:
        ShapeError: if an operand is not 2-D, the inner dimensions differ or `input` does
            not broadcast to (M, N).
    """
    check_dim("addmm", 2, mat1=mat1, mat2=mat2)
    return added("addmm", input, mat1, mat2, beta, alpha, contract)
