"""What the losses over class indices share: shapes, targets, options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from repdl.callcache import ValueRange, do_not_cache
from repdl.errors import (
    ArgumentError,
    UnsupportedError,
    check,
    check_dim,
    check_dtype,
    check_size,
)
from repdl.ops.common.index import check_index
from repdl.registry.arguments import as_int
from repdl.tensors.values import assert_on_device, is_readable

REDUCTIONS = ("none", "mean", "sum")


def check_arguments(
    op: str, input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, reduction: str, ignore_index: int
) -> int:
    """Raise unless each argument is of a type that the losses take; returns `ignore_index`."""
    if not isinstance(reduction, str):
        raise ArgumentError(f"{op}: reduction is {reduction!r}, expected one of {', '.join(REDUCTIONS)}")
    return as_int(op, "ignore_index", ignore_index)


def check_no_grad(op: str, **tensors: torch.Tensor | None) -> None:
    """Raise where a derivative is wanted that torch does not have either."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            raise UnsupportedError(
                f"{op}: {name}.requires_grad is True, expected False: {op} has no derivative with respect "
                f"to it; use {name}.detach()"
            )


def check_class_loss(
    op: str, input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, reduction: str
) -> None:
    """Raise unless input (N, C, ...), target (N, ...) and weight (C) fit together."""
    check_dtype(op, (torch.int64,), target=target)
    check(op, input.dim() >= 2, lambda: f"input.dim() is {input.dim()}, expected 2 or more (N, C, ...)")
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
    check(op, reduction in REDUCTIONS, lambda: f"reduction is {reduction!r}, expected one of {', '.join(REDUCTIONS)}")


def check_targets(op: str, target: torch.Tensor, classes: int, ignore_index: int) -> ValueRange | None:
    """Raise unless every target is a class or `ignore_index`; reads the values."""
    return check_index(
        op,
        target,
        classes,
        name="target",
        expected=lambda: f"a class from 0 to {classes - 1} or ignore_index = {ignore_index}",
        ignored=ignore_index,
    )


def check_classes(op: str, target: torch.Tensor, classes: int, least: int = 0) -> None:
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


def class_loss_checks(op: str) -> tuple[Callable[..., None], Callable[..., ValueRange | None]]:
    """The checks `check` and `check_values` of an op of class indices, for `registry.define`."""

    def check_arguments(
        input: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        reduction: str,
        ignore_index: int,
        contract: str,
    ) -> None:
        check_class_loss(op, input, target, weight, reduction)

    def check_values(
        input: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        reduction: str,
        ignore_index: int,
        contract: str,
    ) -> ValueRange | None:
        return check_targets(op, target, input.shape[1], ignore_index)

    return check_arguments, check_values
