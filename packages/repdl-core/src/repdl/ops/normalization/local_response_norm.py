"""local_response_norm: a formula over squares and their sums in windows of channels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_least, check_least_dim
from repdl.ops.declare import public
from repdl.ops.losses._element_loss import scalar
from repdl.registry import as_float, as_int, composite, functions as _ops

__all__ = ["local_response_norm"]


def _check(op: str, input: Tensor, size: int) -> None:
    check_least_dim(op, 3, "(N, C, ...)", input=input)
    check_least(op, 1, size=size)


def _formula(input: Tensor, size: int, alpha: float, beta: float, k: float, c: str) -> Tensor:
    if input.numel() == 0:
        return input.clone()
    batch, channels = input.shape[:2]
    image = _ops.square(input).reshape(batch, 1, channels, -1)
    padded = torch.nn.functional.pad(image, (0, 0, size // 2, (size - 1) // 2))
    ones = torch.ones((1, 1, size, 1), dtype=input.dtype, device=input.device)
    sums = _ops.conv2d(padded, ones, None, [1, 1], [0, 0], [1, 1], 1, c)
    means = _ops.div(sums, scalar(size, sums), c).view(input.shape)
    scale = _ops.add(_ops.mul(means, scalar(alpha, means), c), scalar(k, means), c)
    return _ops.div(input, _ops.pow(scale, beta), c)


_op: Callable[..., Tensor] = composite(
    "local_response_norm",
    "(Tensor input, int size, float alpha, float beta, float k, str contract) -> Tensor",
    _formula,
    calls=("square", "conv2d", "div", "mul", "add", "pow"),
    check=_check,
    dtypes=Dtypes(),
)


@public("local_response_norm")
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, *, contract: ContractLike = None
) -> Tensor:
    """`input / (k + alpha * m) ** beta`, m the mean square of `size` neighbouring channels: `(N, C, ...)`.

    Beyond the first and the last channel are zeros, which count.

    Raises:
        ShapeError: if `input` has less than three dimensions, or `size` is below 1.
    """
    op = "local_response_norm"
    numbers = (as_float(op, n, v) for n, v in (("alpha", alpha), ("beta", beta), ("k", k)))
    return _op(input, as_int(op, "size", size), *numbers, contract)
