"""linear: a matrix product with a bias added after it."""

from __future__ import annotations

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.declare import public
from repdl.registry import LOWER, define, functions as _ops

__all__ = ["linear"]


def _check(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    check_dim("linear", 2, input=input, weight=weight)
    check_dim("linear", 1, bias=bias)
    if input.shape[1] != weight.shape[1]:
        check_size("linear", "input.shape[-1]", input.shape[1], weight.shape[1], "weight.shape[1], in_features")
    if bias is not None:
        check_size("linear", "bias.shape[0]", bias.shape[0], weight.shape[0], "weight.shape[0], out_features")


define(
    "linear",
    "(Tensor input, Tensor weight, Tensor? bias, str contract) -> Tensor",
    check=_check,
    fake=lambda input, weight: input.new_empty((input.shape[0], weight.shape[0])),
    gradients={
        "input": lambda g, weight, contract: _ops.matmul(g, weight, False, False, contract),
        "weight": lambda g, input, contract: _ops.matmul(g, input, True, False, contract),
        "bias": lambda g, contract: _ops.sum(g, [0], False, contract),
    },
    autocast=LOWER,
    dtypes=Dtypes(),
)


@public("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, contract: ContractLike = None) -> Tensor:
    """`input @ weight.T + bias`: `(..., K), (N, K), (N) -> (..., N)`, any floating-point dtype.

    Args:
        input: any number of leading dimensions, none included.
        weight: (N, K), or (K) for a single output without a trailing dimension.

    Raises:
        ShapeError: if K or N differ between the operands.
    """
    check("linear", input.dim() > 0, "input is 0-D, expected at least one dimension (in_features)")
    check_dim("linear", (1, 2), weight=weight)
    if weight.dim() == 1:
        check_dim("linear", 0, bias=bias)
        bias = None if bias is None else bias.unsqueeze(0)
        return linear(input, weight.unsqueeze(0), bias, contract=contract).squeeze(-1)
    rows = input if input.dim() == 2 else input.reshape(input.shape[:-1].numel(), input.shape[-1])
    output = _ops.linear(rows, weight, bias, contract)
    return output if input.dim() == 2 else output.reshape(*input.shape[:-1], weight.shape[0])
