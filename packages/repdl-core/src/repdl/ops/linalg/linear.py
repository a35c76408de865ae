"""linear: a matrix product with a bias added after it."""

from __future__ import annotations

from typing import Any

import torch

from repdl import registry
from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.declare.public import public
from repdl.registry.autocast import LOWER
from repdl.registry.saved import save

__all__ = ["linear"]


def _check(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, contract: str) -> None:
    check_dim("linear", 2, input=input, weight=weight)
    check_dim("linear", 1, bias=bias)
    if input.shape[1] != weight.shape[1]:
        check_size("linear", "input.shape[-1]", input.shape[1], weight.shape[1], "weight.shape[1], in_features")
    if bias is not None:
        check_size("linear", "bias.shape[0]", bias.shape[0], weight.shape[0], "weight.shape[0], out_features")


def _fake(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, contract: str) -> torch.Tensor:
    return input.new_empty((input.shape[0], weight.shape[0]))


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, weight, _bias, ctx.contract = inputs
    save(ctx, (input, [1]), (weight, [0]))


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    input, weight = ctx.saved_tensors
    grad_input = grad_weight = grad_bias = None
    if ctx.needs_input_grad[0]:
        grad_input = registry.functions.matmul(grad, weight, False, False, ctx.contract)
    if ctx.needs_input_grad[1]:
        grad_weight = registry.functions.matmul(grad, input, True, False, ctx.contract)
    if ctx.needs_input_grad[2]:
        grad_bias = registry.functions.sum(grad, [0], False, ctx.contract)
    return grad_input, grad_weight, grad_bias, None


_op = registry.define(
    "linear",
    "(Tensor input, Tensor weight, Tensor? bias, str contract) -> Tensor",
    check=_check,
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    autocast=LOWER,
    dtypes=Dtypes(),
)


@public("linear")
def linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    contract: ContractLike = None,
) -> torch.Tensor:
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
    output = _op(rows, weight, bias, contract)
    return output if input.dim() == 2 else output.reshape(*input.shape[:-1], weight.shape[0])
