"""dropout and its kin: what is dropped follows from a generator's position, so no mask is kept."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, Dtypes
from repdl.dtypes.rounding import add, difference, div, mul, sqrt
from repdl.dynamo import constant_result
from repdl.errors import check, check_dim, check_dtype, check_range
from repdl.generators.draws import writable
from repdl.generators.generator import Generator, chosen
from repdl.ops.common import arithmetic, constant
from repdl.ops.declare import POSITION, check_place, check_position, check_probability, public
from repdl.registry import as_float, define, functions as _ops

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "feature_dropout",
]


def _check(op: str, position: Tensor, p: float) -> None:
    check_position(op, position)
    check_probability(op, p)


define(
    "dropout",
    f"(Tensor input, Tensor {POSITION}, float p) -> Tensor",
    check=_check,
    check_values=lambda op, input, position: check_place(op, input.numel(), position),
    fake=lambda input: torch.empty_like(input),
    gradients={"input": "dropout"},
    dtypes=Dtypes(integers=(POSITION,)),
    host=(POSITION,),
)


@public("dropout")
def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """Each element, with probability `p`, times 0, else times `1 / (1 - p)`; any shape, any floating-point dtype.

    The input itself if `training` is False or `p` is 0. Which elements are dropped follows from the generator's
    position, which is all that is kept for the backward pass; no bit depends on `contract`.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1]; nothing is drawn.
    """
    drops, p = _checked("dropout", input, p, training, inplace, generator)
    if not drops:
        return input
    return _stored(input, _ops.dropout(input, _position("dropout", input, generator), p), inplace)


@public("dropout", page="generated/torch.nn.Dropout2d", uncached="draws from a generator")
def feature_dropout(
    input: Tensor, p: float, train: bool, *, generator: Generator | None = None, contract: ContractLike = None
) -> Tensor:
    """`dropout` of whole channels: `(N, C, ...)`, 2-D or more, any floating-point dtype.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1]; ShapeError for an input of less dimensions; nothing is drawn.
    """
    drops, p = _checked("feature_dropout", input, p, train, False, generator)
    return _features("feature_dropout", input, p, False, generator, contract) if drops else input


@public("dropout", uncached="draws from a generator")
def dropout1d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`dropout` of whole channels of `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1]; ShapeError for other dimensions; nothing is drawn.
    """
    drops, p = _checked("dropout1d", input, p, training, inplace, generator)
    check_dim("dropout1d", (2, 3), input=input)
    return _channels("dropout1d", 3, input, p, inplace, generator, contract) if drops else input


@public("dropout", uncached="draws from a generator")
def dropout2d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`dropout` of whole channels of `(N, C, H, W)`, any floating-point dtype.

    As torch, it takes 3-D inputs for `(N, C, L)`, with a warning, which `dropout1d` says without.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1]; ShapeError for other dimensions; nothing is drawn.
    """
    drops, p = _checked("dropout2d", input, p, training, inplace, generator)
    check_dim("dropout2d", (3, 4), input=input)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: input.dim() is 3, expected 4; it is taken for (N, C, L), as by torch: use dropout1d",
            stacklevel=2,
        )
    return _features("dropout2d", input, p, inplace, generator, contract) if drops else input


@public("dropout", uncached="draws from a generator")
def dropout3d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`dropout` of whole channels of `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1]; ShapeError for other dimensions; nothing is drawn.
    """
    drops, p = _checked("dropout3d", input, p, training, inplace, generator)
    check_dim("dropout3d", (4, 5), input=input)
    return _channels("dropout3d", 5, input, p, inplace, generator, contract) if drops else input


@public("dropout", uncached="draws from a generator")
def alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """Each element, with probability `p`, takes the value that SELU has at -inf, then all are scaled and shifted so
    that mean 0 and variance 1 stay; any shape, any floating-point dtype.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1]; nothing is drawn.
    """
    drops, p = _checked("alpha_dropout", input, p, training, inplace, generator)
    if not drops:
        return input
    position = _position("alpha_dropout", input, generator)
    kept = _ops.dropout(input, position, p)
    if p == 1:
        return _stored(input, kept, inplace)
    kept = arithmetic.mul(kept, _alpha(p)[0])
    return _stored(input, arithmetic.add(kept, _shift(input, position, p)), inplace)


@public("dropout", uncached="draws from a generator")
def feature_alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`alpha_dropout` of whole channels: `(N, C, ...)`, 2-D or more, any floating-point dtype.

    Raises:
        OutOfRangeError: if `p` is not in [0, 1]; ShapeError for an input of less dimensions; nothing is drawn.
    """
    op = "feature_alpha_dropout"
    drops, p = _checked(op, input, p, training, inplace, generator)
    if not drops:
        return input
    ones = _per_channel(op, input)
    position = _position(op, ones, generator)
    noise = _ops.dropout(ones, position, p)
    if p == 1:
        return _stored(input, _scaled(input, noise, inplace, contract), inplace)
    noise = arithmetic.mul(noise, _alpha(p)[0])
    kept = _scaled(input, noise, inplace, contract)
    return _stored(input, _ops.add(kept, _shift(ones, position, p), contract), inplace)


def _checked(
    op: str, input: Tensor, p: float, training: bool, inplace: bool, generator: Generator | None
) -> tuple[bool, float]:
    """Whether anything is dropped, and p; all that can be wrong is found before the generator goes on."""
    p = as_float(op, "p", p)
    check_range(op, 0 <= p <= 1, lambda: f"p is {p}, expected a probability, 0 to 1")
    chosen(op, generator)
    drops = training and p != 0 and input.numel() != 0
    if drops:
        check_dtype(op, ALL, input=input)
        if inplace:
            writable(op, input, "input")
    return drops, p


def _position(op: str, like: Tensor, generator: Generator | None) -> Tensor:
    return chosen(op, generator).position(like.numel())


def _stored(input: Tensor, output: Tensor, inplace: bool) -> Tensor:
    return input.copy_(output) if inplace else output


def _per_channel(op: str, input: Tensor) -> Tensor:
    """(N, C, ...) -> ones of (N, C, 1, ...)."""
    check(op, input.dim() >= 2, lambda: f"input.dim() is {input.dim()}, expected 2 or more, (N, C, ...)")
    return input.new_ones((*input.shape[:2], *[1] * (input.dim() - 2)))


def _features(op: str, input: Tensor, p: float, inplace: bool, generator: Generator | None, contract: str) -> Tensor:
    ones = _per_channel(op, input)
    noise = _ops.dropout(ones, _position(op, ones, generator), p)
    return _stored(input, _scaled(input, noise, inplace, contract), inplace)


def _scaled(input: Tensor, noise: Tensor, inplace: bool, contract: str) -> Tensor:
    if inplace and input.requires_grad:
        input = input.clone()  # mul keeps its operands for the derivative
    return _ops.mul(input, noise, contract)


def _channels(op: str, batched: int, input: Tensor, *rest: Any) -> Tensor:
    """`_features` of an input that has `batched` dimensions, or no batch."""
    if input.dim() == batched:
        return _features(op, input, *rest)
    return _features(op, input.unsqueeze(0), *rest).squeeze(0)


_SELU = 1.7580993408473766
"""Scale times alpha of SELU: minus its value at -inf."""


@constant_result
def _alpha(p: float) -> tuple[float, float, float]:
    """What alpha_dropout multiplies the result of dropout by, and what it adds where an element is kept and where
    it is dropped: with scale = 1 / sqrt((_SELU * _SELU * p + 1) * (1 - p)), in doubles, scale * (1 - p), as dropout
    scales what it keeps by 1 / (1 - p), scale * _SELU * p and scale * _SELU * (p - 1)."""
    spread = add(mul(mul(_SELU, _SELU), p), 1.0)
    scale = div(1.0, sqrt(mul(spread, difference(1.0, p))))
    size = mul(scale, _SELU)
    return mul(scale, difference(1.0, p)), mul(size, p), mul(size, difference(p, 1.0))


def _shift(like: Tensor, position: Tensor, p: float) -> Tensor:
    """What alpha_dropout adds."""
    _, *sizes = _alpha(p)
    kept, lost = (constant(size, like.dtype, like.device) for size in sizes)
    dropped = _ops.bernoulli_scalar(like.detach(), position, p)
    return torch.where(dropped != 0, lost, kept)
