"""addmm: a matrix product and a matrix to add, a formula over registered ops."""

from __future__ import annotations

from typing import Any

import torch

from repdl import registry
from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.dtypes.rounding import is_zero, rounded
from repdl.errors import check, check_dim, check_size
from repdl.ops.common.broadcast import sum_to
from repdl.ops.common.scalar import constant, item
from repdl.ops.declare.public import public
from repdl.ops.pointwise.cast import narrowed, widened
from repdl.registry import OPS, composite
from repdl.registry.arguments import as_float
from repdl.registry.autocast import LOWER
from repdl.registry.saved import save

__all__ = ["addmm"]

_ops = registry.functions


def _check(
    input: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, beta: float, alpha: float, contract: str
) -> None:
    check_dim("addmm", (2, 3), mat1=mat1, mat2=mat2)
    check_dim("addmm", mat1.dim(), mat2=mat2)
    check_size("addmm", "mat2.shape[:-2]", tuple(mat2.shape[:-2]), tuple(mat1.shape[:-2]), "mat1.shape[:-2]")
    if mat1.shape[-1] != mat2.shape[-2]:
        check_size("addmm", "mat1.shape[-1]", mat1.shape[-1], mat2.shape[-2], "mat2.shape[-2]")
    shape = (*mat1.shape[:-1], mat2.shape[-1])
    fits = input.dim() <= len(shape) and all(a in (1, b) for a, b in zip(reversed(input.shape), reversed(shape)))
    check("addmm", fits, lambda: f"input.shape is {tuple(input.shape)}, expected a shape that broadcasts to {shape}")


def _scaled(tensor: torch.Tensor, number: float, contract: str) -> torch.Tensor:
    if number == 1:
        return tensor
    return _ops.mul(tensor, constant(number, tensor.dtype, tensor.device), contract)


def _formula(
    input: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, beta: float, alpha: float, contract: str
) -> torch.Tensor:
    product = _scaled(_ops.matmul(mat1, mat2, False, False, contract), alpha, contract)
    if is_zero(beta):
        return product
    return _ops.add(_scaled(input, beta, contract), product, contract)


def _fake(
    input: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, beta: float, alpha: float, contract: str
) -> torch.Tensor:
    product = OPS["matmul"].fake(mat1, mat2, False, False, contract)
    return product if is_zero(beta) else OPS["add"].fake(input, product, contract)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, mat1, mat2, ctx.beta, ctx.alpha, ctx.contract = inputs
    ctx.shape = input.shape
    save(ctx, (mat1, [2]), (mat2, [1]))


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    dtype, (grad, mat1, mat2) = widened(grad, *ctx.saved_tensors)
    needed = ctx.needs_input_grad
    grads: list[torch.Tensor | None] = [None, None, None]
    if needed[0] and not is_zero(ctx.beta):
        grads[0] = _scaled(sum_to(grad, ctx.shape, ctx.contract), ctx.beta, ctx.contract)
    product = _scaled(grad, ctx.alpha, ctx.contract)
    if needed[1]:
        grads[1] = _ops.matmul(product, mat2, False, True, ctx.contract)
    if needed[2]:
        grads[2] = _ops.matmul(mat1, product, True, False, ctx.contract)
    return *(None if g is None else narrowed(g, dtype) for g in grads), None, None, None


_op = composite(
    "addmm",
    "(Tensor input, Tensor mat1, Tensor mat2, float beta, float alpha, str contract) -> Tensor",
    _formula,
    calls=("matmul", "mul", "add"),
    check=_check,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    dtypes=Dtypes(),
    autocast=LOWER,
)


def _scalar(op: str, name: str, value: float, input: torch.Tensor) -> float:
    """beta or alpha as a double; an integer that is none is rounded once to the dtype of the arithmetic."""
    if isinstance(value, torch.Tensor) and value.dim() == 0 and not value.requires_grad:
        value = item(value)
    if isinstance(value, int) and not -(2**53) <= value <= 2**53:
        return rounded(value, torch.float64 if input.dtype is torch.float64 else torch.float32)
    return as_float(op, name, value)


def added(
    op: str,
    input: torch.Tensor,
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    beta: float,
    alpha: float,
    contract: str,
) -> torch.Tensor:
    """`beta * input + alpha * (mat1 @ mat2)` of matrices, or of batches of them, for the function `op`."""
    beta, alpha = (_scalar(op, n, v, input) for n, v in (("beta", beta), ("alpha", alpha)))
    return _op(input, mat1, mat2, beta, alpha, contract)


@public("addmm")
def addmm(
    input: torch.Tensor,
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    contract: ContractLike = None,
) -> torch.Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`: `(M, K) @ (K, N) -> (M, N)`, any floating-point dtype.

    `input` broadcasts to (M, N). With beta = 0 it is not read, so NaN in it does not spread.

    Raises:
        ShapeError: if an operand is not 2-D, the inner dimensions differ or `input` does
            not broadcast to (M, N).
    """
    check_dim("addmm", 2, mat1=mat1, mat2=mat2)
    return added("addmm", input, mat1, mat2, beta, alpha, contract)
