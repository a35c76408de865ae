"""cov and corrcoef: products of rows that are freed of their means."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import check, check_dim, check_dtype, check_size
from repdl.ops.common import constant, floating, is_whole, narrowed, widened
from repdl.ops.declare import public
from repdl.registry import as_int, functions as _ops
from repdl.tensors.values import assert_on_device, is_readable

__all__ = ["corrcoef", "cov"]


def _weights(op: str, name: str, weights: Tensor | None, count: int) -> None:
    if weights is None:
        return
    check_dim(op, (0, 1), **{name: weights})
    check_size(op, f"{name}.numel()", weights.numel(), count, "the number of observations")
    assert_on_device(op, weights, lambda w: w >= 0, f"a number of {name} is below 0")
    if is_readable(weights) and weights.numel():
        check(op, bool((weights >= 0).all()), f"{name} has a number below 0, expected none")


def _cov(x: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None, contract: str) -> Tensor:
    count = x.shape[1]
    weight = None
    for given in (fweights, aweights):
        if given is not None:
            part = floating(given.reshape(-1), x.dtype)
            weight = part if weight is None else _ops.mul(weight, part, contract)
    if weight is None:
        total: Any = constant(float(count), x.dtype, x.device)
        divisor = constant(float(max(count - correction, 0)), x.dtype, x.device)
        mean = _ops.div(_ops.sum(x, [1], True, contract), total, contract)
    else:
        total = _ops.sum(weight, [0], False, contract)
        mean = _ops.div(_ops.sum(_ops.mul(x, weight, contract), [1], True, contract), total, contract)
        lost = constant(float(correction), x.dtype, x.device)
        if aweights is not None and correction != 0:
            squares = _ops.mul(weight, floating(aweights.reshape(-1), x.dtype), contract)
            share = _ops.div(_ops.sum(squares, [0], False, contract), total, contract)
            lost = _ops.mul(lost, share, contract)
        divisor = _ops.relu(_ops.sub(total, lost, contract))
    apart = _ops.sub(x, mean, contract)
    weighted = apart if weight is None else _ops.mul(apart, weight, contract)
    return _ops.div(_ops.matmul(apart, weighted, False, True, contract), divisor, contract)


def _checked(op: str, input: Tensor) -> Tensor:
    check(op, input.dim() <= 2, lambda: f"input.dim() is {input.dim()}, expected at most 2")
    if is_whole(input.dtype):
        input = floating(input, torch.get_default_dtype())
    check_dtype(op, ALL, input=input)
    return input.reshape(1, -1) if input.dim() < 2 else input


@public("var", uncached="functions that are cached compute it")
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """Covariances of rows, each a variable and each column an observation: `(V, N) -> (V, V)`, `(N) -> ()`.

    `(d @ (d * w).T) / m`, d = `x - sum(x * w) / sum(w)`, w = `fweights * aweights`, m = `max(sum(w) - correction, 0)`,
    with aweights `max(sum(w) - correction * (sum(w * aweights) / sum(w)), 0)`; without weights n is their sum. Any
    floating-point dtype, 16-bit floats rounded once; integers become floating-point.

    Raises:
        ShapeError: if there are more than two dimensions, or weights do not fit or are negative.
        DTypeError: if `input` is of no dtype of the contract, or weights are of no dtype that they can have.
    """
    op = "cov"
    x = _checked(op, input)
    lost = as_int(op, "correction", correction)
    if fweights is not None:
        check_dtype(op, (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), fweights=fweights)
    check_dtype(op, ALL, aweights=aweights)
    _weights(op, "fweights", fweights, x.shape[1])
    _weights(op, "aweights", aweights, x.shape[1])
    if aweights is not None:
        x = floating(x, torch.promote_types(x.dtype, aweights.dtype))
    storage, (wide,) = widened(x)
    return narrowed(_cov(wide, lost, fweights, aweights, contract).squeeze(), storage)


@public("var", uncached="functions that are cached compute it")
def corrcoef(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Correlation coefficients of rows: `(V, N) -> (V, V)`, `(N) -> ()`, any floating-point dtype.

    `clamp((c_ij / s_i) / s_j, -1, 1)`, c = `cov(input)` and s_i = `sqrt(c_ii)`; 16-bit floats are rounded once.

    Raises:
        ShapeError: if there are more than two dimensions.
    """
    op = "corrcoef"
    x = _checked(op, input)
    storage, (wide,) = widened(x)
    c = _cov(wide, 1, None, None, contract)
    deviation = _ops.sqrt(c.diagonal())
    quotient = _ops.div(_ops.div(c, deviation.unsqueeze(1), contract), deviation.unsqueeze(0), contract)
    return narrowed(_ops.clamp(quotient, -1.0, 1.0).squeeze(), storage)
