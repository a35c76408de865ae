"""Losses of distances between vectors: cosine_embedding_loss, triplet_margin_loss, and that with a distance of one's
own."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import ArgumentError, check, check_dim, check_size
from repdl.ops.declare import Written, broadcast_shape, public
from repdl.ops.losses._element_loss import element_loss, operands, reduced, scalar, with_target
from repdl.ops.losses._loss import check_reduction
from repdl.ops.losses.distance import pairwise_distance as pairwise_distance  # which registers the op
from repdl.registry import OPS, CaseSpec, as_float, functions as _ops

__all__ = ["cosine_embedding_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss"]

_LEAST_SQUARE = 1e-12


def _positive_part(x: Tensor) -> Tensor:
    return _ops.clamp(x, 0.0, math.inf)


def _cosine_embedding(input1: Tensor, input2: Tensor, target: Tensor, margin: float, c: str) -> Tensor:
    one, zero, least = (scalar(n, input1) for n in (1.0, 0.0, _LEAST_SQUARE))
    squares = (_ops.sum_of_squares(x, [x.dim() - 1], False, c) for x in (input1, input2))
    first, second = (_ops.add(total, least, c) for total in squares)
    product = _ops.mul(input1, input2, c)
    cosine = _ops.div(_ops.sum(product, [product.dim() - 1], False, c), _ops.sqrt(_ops.mul(first, second, c)), c)
    apart = _positive_part(_ops.sub(cosine, scalar(margin, cosine), c))
    same = _ops.where(target == 1, _ops.sub(one, cosine, c), zero, c)
    return _ops.add(same, _ops.where(target == -1, apart, zero, c), c)


def _check_cosine(op: str, input1: Tensor, input2: Tensor, target: Tensor) -> None:
    shape = broadcast_shape(op, input1=input1, input2=input2)
    check(op, 1 <= len(shape) <= 2, lambda: f"input1 and input2 broadcast to {tuple(shape)}, expected (N, D) or (D)")
    check_dim(op, len(shape) - 1, target=target)
    check_size(op, "target.shape", target.shape, shape[:-1], "that of the inputs, without their last size")


element_loss(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin, str reduction, str contract) "
    "-> Tensor",
    Written(
        _cosine_embedding,
        "of each row: `a + b`, a = `1 - z` where y is 1, else +0; b = `maximum(z - margin, 0)` where y is -1, else +0; "
        "`z = sum(x1 * x2) / sqrt((sum(square(x1)) + 1e-12) * (sum(square(x2)) + 1e-12))`",
    ),
    calls="sum_of_squares add mul sqrt sub clamp where",
    check=_check_cosine,
    cases=CaseSpec("written"),
    fixed=("target",),
)


def _of_distances(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    c: str,
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _ops.minimum(far, distance(positive, negative), c)
    return _positive_part(_ops.sub(_ops.add(scalar(margin, near), near, c), far, c))


def _triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, p: float, eps: float, swap: bool, c: str
) -> Tensor:
    def distance(x: Tensor, y: Tensor) -> Tensor:
        return _ops.pairwise_distance(x, y, p, eps, False, c)

    return _of_distances(anchor, positive, negative, distance, margin, swap, c)


def _check_triplet(op: str, anchor: Tensor, positive: Tensor, negative: Tensor, margin: float) -> None:
    check_dim(op, anchor.dim(), positive=positive, negative=negative)
    broadcast_shape(op, anchor=anchor, positive=positive, negative=negative)
    check(op, margin > 0, lambda: f"margin is {margin}, expected a number above 0")


element_loss(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin, float p, float eps, bool swap, "
    "str reduction, str contract) -> Tensor",
    Written(
        _triplet,
        "of each row: `maximum((margin + d(a, p)) - n, 0)`, d the `pairwise_distance` of `distance.md`, n = `d(a, n)`, "
        "with swap `minimum(d(a, n), d(p, n))`; "
        "`triplet_margin_with_distance_loss(anchor, positive, negative)` is that of a caller's d",
    ),
    calls=" ".join(("sub add minimum clamp", *OPS["pairwise_distance"].calls)),
    check=_check_triplet,
    cases=CaseSpec("written"),
)


@public("losses")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """1 - cosine of rows where `target` is 1, `max(0, cosine - margin)` where it is -1: `(N, D), (N, D), (N)`, reduced.

    Or `(D), (D), ()`; any floating-point dtype: that of the inputs, to which `target` is converted.

    Raises:
        ShapeError: if the shapes do not fit together, or for another `reduction`.
    """
    op = "cosine_embedding_loss"
    input1, input2, target = with_target(op, target, input1=input1, input2=input2)
    return _ops.cosine_embedding_loss(
        input1, input2, target.detach(), as_float(op, "margin", margin), reduction, contract
    )


@public("losses")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    contract: ContractLike = None,
) -> Tensor:
    """`max(0, margin + d(anchor, positive) - d(anchor, negative))`, d the `pairwise_distance`: `(..., D)`, reduced.

    With `swap` the distance from `positive` to `negative` counts where it is the smaller one.

    Raises:
        ShapeError: if the shapes do not fit together, for a `margin` that is not above 0, or another `reduction`.
    """
    op = "triplet_margin_loss"
    anchor, positive, negative = operands(op, anchor=anchor, positive=positive, negative=negative)
    margin, p, eps = (as_float(op, n, v) for n, v in (("margin", margin), ("p", p), ("eps", eps)))
    return _ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction, contract)


@public("losses", uncached="calls a function of the caller")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    contract: ContractLike = None,
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own, a function of two tensors; None: `pairwise_distance`.

    Its bits are as reproducible as those of the distance, which should be made of functions of `repdl.ops`.

    Raises:
        ShapeError: if numbers of dimensions differ, for a `margin` that is not above 0, or another `reduction`.
        ArgumentError: if `distance_function` is no function.
    """
    op = "triplet_margin_with_distance_loss"
    check_reduction(op, reduction)
    check_dim(op, anchor.dim(), positive=positive, negative=negative)
    size = as_float(op, "margin", margin)
    check(op, size > 0, lambda: f"margin is {size}, expected a number above 0")
    if distance_function is None:
        return triplet_margin_loss(anchor, positive, negative, size, swap=swap, reduction=reduction, contract=contract)
    if not callable(distance_function):
        raise ArgumentError(f"{op}: distance_function is {distance_function!r}, expected a function of two tensors")
    losses = _of_distances(anchor, positive, negative, distance_function, size, swap, contract)
    return reduced(losses, reduction, contract)
