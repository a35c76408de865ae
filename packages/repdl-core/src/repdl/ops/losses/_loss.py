"""What the losses over class indices share: shapes, targets, options."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.callcache import ValueRange, do_not_cache
from repdl.errors import (
    ArgumentError,
    UnsupportedError,
    check_dim,
    check_dtype,
    check_least_dim,
    check_one_of,
    check_size,
)
from repdl.ops.common import check_index
from repdl.registry import as_int
from repdl.tensors.values import assert_on_device, is_readable

REDUCTIONS = ("none", "mean", "sum")


def check_arguments(
    op: str, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int
) -> int:
    """Raise unless each argument is of a type that the losses take; returns `ignore_index`."""
    if not isinstance(reduction, str):
        raise ArgumentError(f"{op}: reduction is {reduction!r}, expected one of {', '.join(REDUCTIONS)}")
    return as_int(op, "ignore_index", ignore_index)


def check_no_grad(op: str, **tensors: Tensor | None) -> None:
    """Raise where a derivative is wanted that torch does not have either."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            raise UnsupportedError(
                f"{op}: {name}.requires_grad is True, expected False: {op} has no derivative with respect "
                f"to it; use {name}.detach()"
            )


def check_class_loss(op: str, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> None:
    """Raise unless input (N, C, ...), target (N, ...) and weight (C) fit together."""
    check_dtype(op, (torch.int64,), target=target)
    check_least_dim(op, 2, "(N, C, ...)", input=input)
    expected = target_shape(input.shape)
    check_size(op, "target.shape", list(target.shape), expected, "input.shape without the classes")
    check_class_weight(op, input, weight)
    check_reduction(op, reduction)


def check_class_weight(op: str, input: Tensor, weight: Tensor | None) -> None:
    """Raise unless a weight has one number for each class of `input`, (N, C, ...)."""
    if weight is not None:
        check_dim(op, 1, weight=weight)
        check_size(op, "weight.shape[0]", weight.shape[0], input.shape[1], "input.shape[1], the classes")


def target_shape(input_shape: Sequence[int]) -> list[int]:
    """`(N, C, ...) -> (N, ...)`."""
    return [input_shape[0], *input_shape[2:]]


def check_reduction(op: str, reduction: str) -> None:
    """Raise unless torch knows the reduction."""
    check_one_of(op, REDUCTIONS, reduction=reduction)


def check_targets(op: str, target: Tensor, classes: int, ignore_index: int) -> ValueRange | None:
    """Raise unless every target is a class or `ignore_index`; reads the values."""
    return check_index(
        op,
        target,
        classes,
        name="target",
        expected=lambda: f"a class from 0 to {classes - 1} or ignore_index = {ignore_index}",
        ignored=ignore_index,
    )


def check_classes(op: str, target: Tensor, classes: int, least: int = 0) -> None:
    """Raise unless every target is a class, or at least `least`; reads the values, if they can be read."""
    if target.dtype is not torch.int64:
        return
    what = f"a target is no class, from {least} to {classes - 1}"
    if assert_on_device(op, target, lambda t: (t >= least) & (t < classes), what):
        do_not_cache()
    elif is_readable(target):
        do_not_cache()
        check_index(
            op,
            target - least,
            classes - least,
            name="target",
            expected=lambda: f"{least} to {classes - 1}",
            given=target,
        )


def check_class_targets(op: str, input: Tensor, target: Tensor, ignore_index: int) -> ValueRange | None:
    """Raise unless every target is a class of `input`, (N, C, ...), or `ignore_index`; reads the values."""
    return check_targets(op, target, input.shape[1], ignore_index)
