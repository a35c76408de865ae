"""What the losses over class indices share: shapes, targets, options."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.errors import UnsupportedError, check, check_dim, check_dtype, check_size

REDUCTIONS = ("none", "mean", "sum")


def check_class_loss(
    op: str, input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, reduction: str
) -> None:
    """Raise unless input (N, C, ...), target (N, ...) and weight (C) fit together."""
    check_dtype(op, input=input, weight=weight)
    check_dtype(op, (torch.int64,), target=target)
    check(op, input.dim() >= 2, f"input.dim() is {input.dim()}, expected 2 or more (N, C, ...)")
    expected = target_shape(input.shape)
    check_size(op, "target.shape", list(target.shape), expected, "input.shape without the classes")
    if weight is not None:
        check_dim(op, 1, weight=weight)
        check_size(op, "weight.shape[0]", weight.shape[0], input.shape[1], "input.shape[1], the classes")
    check_reduction(op, reduction)


def target_shape(input_shape: Sequence[int]) -> list[int]:
    """`(N, C, ...) -> (N, ...)`."""
    return [input_shape[0], *input_shape[2:]]


def check_reduction(op: str, reduction: str) -> None:
    """Raise unless torch knows the reduction."""
    check(op, reduction in REDUCTIONS, f"reduction is {reduction!r}, expected one of {', '.join(REDUCTIONS)}")


def check_targets(op: str, target: torch.Tensor, classes: int, ignore_index: int) -> None:
    """Raise unless every target is a class or `ignore_index`; reads the values."""
    if target.numel() == 0:
        return
    low, high = (int(t) for t in target.aminmax())
    if low >= 0 and high < classes:
        return
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if wrong.any():
        where = tuple(int(i) for i in wrong.nonzero()[0])
        check(
            op, False,
            f"target{list(where)} is {int(target[where])}, expected a class from 0 to {classes - 1} "
            f"or ignore_index = {ignore_index}",
        )


def check_deprecated(op: str, size_average: bool | None, reduce: bool | None) -> None:
    """Raise where the options that torch deprecates are used."""
    if size_average is not None or reduce is not None:
        raise UnsupportedError(f"{op}: size_average and reduce are deprecated by torch, expected None; use reduction=")
