"""quantile, nanquantile: elements of sorted rows, and what lies between two of them; mode: the most frequent one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import check, check_dim, check_dtype, check_range
from repdl.ops.common import as_numpy, constant, floating, is_whole, normalize_dim, sort_key
from repdl.ops.declare import public, variants
from repdl.ops.indexing.gather import at_least_1d, gather
from repdl.ops.pointwise.elementwise import div
from repdl.ops.reduction.scan import running
from repdl.ops.sorting.sort import sort
from repdl.registry import as_float, functions as _ops
from repdl.tensors.values import assert_on_device, is_readable

__all__ = ["mode", "nanquantile", "quantile"]

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _between(rows: Tensor, rank: Tensor, interpolation: str, contract: str) -> Tensor:
    """Of sorted rows what stands at each rank: `(..., N), (..., Q) -> (..., Q)`."""
    floor = div(rank.detach(), 1.0, rounding_mode="floor", contract=contract)
    rest = _ops.sub(rank, floor, contract)
    whole, half = sort_key(rest) == 0, sort_key(rest) - sort_key(constant(0.5, rest.dtype, rest.device))
    at = floor.long()
    if interpolation == "higher":
        at = at + ~whole
    elif interpolation == "nearest":
        at = at + ((half > 0) | ((half == 0) & (at % 2 == 1)))
    below = gather(rows, -1, at, contract=contract)
    if interpolation not in ("linear", "midpoint"):
        return below
    above = gather(rows, -1, at + ~whole, contract=contract)
    weight = rest if interpolation == "linear" else constant(0.5, rest.dtype, rest.device).expand(rest.shape)
    return _ops.where(whole, below, _ops.lerp_tensor(below, above, weight, contract), contract)


def _quantile(
    op: str,
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    dim, keepdim = as_numpy(op, dim, keepdim, axis, keepdims)
    check_dtype(op, (torch.float32, torch.float64), input=input)
    known = ", ".join(INTERPOLATIONS)
    check(op, interpolation in INTERPOLATIONS, lambda: f"interpolation is {interpolation!r}, expected one of {known}")
    if not isinstance(q, Tensor):
        q = constant(as_float(op, "q", q), input.dtype, input.device)
    check_dim(op, (0, 1), q=q)
    check_dtype(op, (input.dtype,), q=q)
    assert_on_device(op, q.detach(), lambda p: (p >= 0) & (p <= 1), "a number of q is not from 0 to 1")
    if is_readable(q) and q.numel():
        values = q.detach().flatten().tolist()
        check_range(op, all(0 <= v <= 1 for v in values), lambda: f"q is {values}, expected numbers from 0 to 1")
    position = 0 if dim is None else normalize_dim(op, dim, input.dim())
    rows = input.reshape(-1) if dim is None else at_least_1d(input).movedim(position, -1)
    size = rows.shape[-1]
    check_range(op, size > 0, lambda: f"input has {size} elements to take a quantile of, expected 1 or more")
    nan = rows.detach().isnan()
    last = constant(float(size - 1), rows.dtype, rows.device)
    if op == "nanquantile":  # NaN comes last: the others are the first of a row
        left = floating((~nan).sum(-1, keepdim=True).clamp(min=1) - 1, rows.dtype)
        rank = _ops.mul(q.reshape(-1), left, contract)
    else:
        rank = _ops.where(nan.any(-1, keepdim=True), last, _ops.mul(q.reshape(-1), last, contract), contract)
    found = _between(sort(rows, -1, contract=contract)[0], rank, interpolation, contract).movedim(-1, 0)
    if keepdim:
        shape = [1] * input.dim() if dim is None else [*input.shape[:position], 1, *input.shape[position + 1 :]]
        found = found.reshape([found.shape[0], *(shape if input.dim() else [])])
    elif input.dim() == 0:
        found = found.reshape(-1)
    return found if q.dim() else found.squeeze(0)


_DOCS = {
    "quantile": """Of each row of n elements along `dim`, or of all, what stands at `q * (n - 1)` once they are sorted.

    float32 and float64. Between two elements a and b 'linear' is `lerp(a, b, t)`, t the part behind a; 'midpoint'
    that with 1/2; 'lower' is a, 'higher' b, 'nearest' the nearer one, of equally near ones the even one. NaN if there
    is one.

    Args:
        q: a number from 0 to 1, or a tensor of them, (Q), with which the output has a first dimension of Q.

    Raises:
        ShapeError: if `dim` does not exist or has no element, or `q` more than one dimension.
        OutOfRangeError: if `q` is not from 0 to 1.
        DTypeError: if `input` is of no dtype of these, or `q` of another one.
    """,
    "nanquantile": """`quantile` of the elements that are not NaN; NaN if there are none.

    Raises:
        ShapeError: if `dim` does not exist or has no element, or `q` more than one dimension.
        OutOfRangeError: if `q` is not from 0 to 1.
        DTypeError: if `input` is neither float32 nor float64, or `q` of another dtype.
    """,
}
quantile, nanquantile = variants(_quantile, "max", _DOCS, uncached="functions that are cached compute it")


@public("max", uncached="functions that are cached compute it")
def mode(
    input: Tensor,
    dim: int = -1,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Any:
    """The most frequent element along `dim`, of several the smallest: a named tuple `(values, indices)`.

    Floats or integers; all NaN are equal, and so are both zeros. The index is that of the last such element.

    Raises:
        ShapeError: if `dim` does not exist or has no element.
    """
    op = "mode"
    check(op, axis is None or dim == -1, lambda: f"dim is {dim} and axis is {axis}, expected one of them")
    keepdim = keepdim if keepdims is None else keepdims
    if not is_whole(input.dtype):
        check_dtype(op, ALL, input=input)
    position = normalize_dim(op, dim if axis is None else axis, input.dim())
    rows = at_least_1d(input)
    size = rows.shape[position]
    check_range(op, size > 0, lambda: f"input.shape[{position}] is 0, expected 1 or more to take a mode of")
    keys, places = torch.sort(sort_key(rows).movedim(position, -1), dim=-1, stable=True)
    numbers = torch.arange(size, device=input.device)
    begins = torch.cat([torch.ones_like(keys[..., :1], dtype=torch.bool), keys[..., 1:] != keys[..., :-1]], -1)
    count = numbers - running(torch.maximum, torch.where(begins, numbers, 0), keys.dim() - 1)
    longest = torch.where(count == count.amax(-1, keepdim=True), numbers, size).amin(-1, keepdim=True)
    indices = places.gather(-1, longest).movedim(-1, position)
    values = gather(rows, position, indices, contract=contract)
    if input.dim() == 0 or not keepdim:
        values, indices = values.squeeze(position), indices.squeeze(position)
    return torch.return_types.mode((values, indices))  # type: ignore[attr-defined]
