"""addmm: a matrix product and a matrix to add, a formula over registered ops."""

from __future__ import annotations

import torch

from repdl import registry
from repdl.autocast import LOWER
from repdl.contract import Contract, contract_name
from repdl.dtypes import Dtypes
from repdl.errors import as_float, check, check_dim, check_size, check_tensor
from repdl.numbers import is_zero, rounded
from repdl.ops._number import constant, item
from repdl.registry import composite
from repdl.replay import replayed

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


def _formula(
    input: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, beta: float, alpha: float, contract: str
) -> torch.Tensor:
    def scaled(tensor: torch.Tensor, number: float) -> torch.Tensor:
        return tensor if number == 1 else _ops.mul(tensor, constant(number, tensor.dtype, tensor.device), contract)

    product = scaled(_ops.matmul(mat1, mat2, False, False, contract), alpha)
    return product if is_zero(beta) else _ops.add(scaled(input, beta), product, contract)  # type: ignore[no-any-return]


_op = composite(
    "addmm",
    "(Tensor input, Tensor mat1, Tensor mat2, float beta, float alpha, str contract) -> Tensor",
    _formula,
    calls=("matmul", "mul", "add"),
    check=_check,
    dtypes=Dtypes(),
    autocast=LOWER,
)


def _number(op: str, name: str, value: float, input: torch.Tensor) -> float:
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
    contract: Contract | str | None,
) -> torch.Tensor:
    """`beta * input + alpha * (mat1 @ mat2)` of matrices, or of batches of them, for the function `op`."""
    name = contract_name(contract)
    beta, alpha = (_number(op, n, v, input) for n, v in (("beta", beta), ("alpha", alpha)))
    return _op(input, mat1, mat2, beta, alpha, name)  # type: ignore[no-any-return]


@replayed
def addmm(
    input: torch.Tensor,
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`: `(M, K) @ (K, N) -> (M, N)`, any floating-point dtype.

    `input` broadcasts to (M, N). With beta = 0 it is not read, so NaN in it does not spread.

    Raises:
        ShapeError: if an operand is not 2-D, the inner dimensions differ or `input` does
            not broadcast to (M, N).
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: addmm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.addmm.html
    """
    check_tensor("addmm", input=input, mat1=mat1, mat2=mat2)
    check_dim("addmm", 2, mat1=mat1, mat2=mat2)
    return added("addmm", input, mat1, mat2, beta, alpha, contract)
