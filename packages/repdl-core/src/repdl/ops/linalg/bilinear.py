"""bilinear: a formula over two products."""

from __future__ import annotations

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.declare import public
from repdl.registry import composite, functions as _ops

__all__ = ["bilinear"]


def _check(op: str, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    check_dim(op, 3, weight=weight)
    check(op, input1.dim() > 0, "input1 is 0-D, expected 1-D or more")
    check_size(op, "input2.shape[:-1]", input2.shape[:-1], input1.shape[:-1], "input1.shape[:-1]")
    for i, input in enumerate((input1, input2), 1):
        check_size(op, f"input{i}.shape[-1]", input.shape[-1], weight.shape[i], f"weight.shape[{i}]")
    if bias is not None:
        check_size(op, "bias.shape", bias.shape, weight.shape[:1], "weight.shape[:1]")


def _formula(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None, c: str) -> Tensor:
    outputs, features1, features2 = weight.shape
    rows = input1.shape[:-1].numel()
    matrix = weight.permute(1, 0, 2).reshape(features1, outputs * features2)
    inner = _ops.matmul(input1.reshape(rows, features1), matrix, False, False, c)
    columns = input2.reshape(rows, features2, 1)
    result = _ops.matmul(inner.view(rows, outputs, features2), columns, False, False, c).squeeze(2)
    result = result if bias is None else _ops.add(result, bias, c)
    return result.view(*input1.shape[:-1], outputs)


composite(
    "bilinear",
    "(Tensor input1, Tensor input2, Tensor weight, Tensor? bias, str contract) -> Tensor",
    _formula,
    calls=("matmul", "add"),
    check=_check,
    dtypes=Dtypes(),
    autocast={"cuda": None},
)


@public("bilinear")
def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None, *, contract: ContractLike = None
) -> Tensor:
    """`input1 @ weight[o] @ input2 + bias[o]`: `(..., I), (..., J), (O, I, J) -> (..., O)`, any floating-point dtype.

    The products of `input1` and `weight`, O * J a row, are kept for the backward pass.

    Raises:
        ShapeError: if the shapes do not fit together.
    """
    return _ops.bilinear(input1, input2, weight, bias, contract)
