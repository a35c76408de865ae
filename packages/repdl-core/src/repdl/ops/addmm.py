"""addmm: a matrix product and a matrix to add, made of registered ops."""

from __future__ import annotations

import torch

from repdl.autocast import LOWER, converted, is_on
from repdl.contract import Contract, contract_name
from repdl.dtypes import ALL
from repdl.errors import as_float, check, check_device, check_dim, check_dtype, check_tensor
from repdl.numbers import is_zero
from repdl.ops._number import item
from repdl.ops.cast import narrowed, widened
from repdl.ops.elementwise import mul
from repdl.ops.matmul import mm

__all__ = ["addmm"]


def _number(name: str, value: float) -> float:
    if isinstance(value, torch.Tensor) and value.dim() == 0 and not value.requires_grad:
        value = item(value)
    as_float("addmm", name, value)
    return value


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
    name = contract_name(contract)
    check_tensor("addmm", input=input, mat1=mat1, mat2=mat2)
    beta, alpha = (_number(n, v) for n, v in (("beta", beta), ("alpha", alpha)))
    if is_on(LOWER, input.device.type):
        input, mat1, mat2 = converted(LOWER, input, mat1, mat2)
        with torch.autocast(input.device.type, enabled=False):
            return addmm(input, mat1, mat2, beta=beta, alpha=alpha, contract=name)
    check_dtype("addmm", ALL, input=input)
    check_dtype("addmm", (input.dtype,), mat1=mat1, mat2=mat2)
    check_device("addmm", input=input, mat1=mat1, mat2=mat2)
    check_dim("addmm", 2, mat1=mat1, mat2=mat2)
    shape = (mat1.shape[0], mat2.shape[1])
    fits = input.dim() <= 2 and all(a in (1, b) for a, b in zip(reversed(input.shape), reversed(shape)))
    check("addmm", fits, lambda: f"input.shape is {tuple(input.shape)}, expected a shape that broadcasts to {shape}")
    dtype, (input, mat1, mat2) = widened(input, mat1, mat2)
    product = mm(mat1, mat2, contract=name)
    if alpha != 1:
        product = mul(product, alpha, contract=name)
    if is_zero(beta):
        return narrowed(product, dtype)
    scaled = input if beta == 1 else mul(input, beta, contract=name)
    return narrowed(torch.ops.repdl.add(scaled, product, name), dtype)
