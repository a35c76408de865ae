"""Positions in the stream of numbers (random.md): what every op that draws has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.callcache import ValueRange
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dtype, check_range, check_size
from repdl.registry import define
from repdl.registry.named import by_name

__all__ = ["POSITION", "check_place", "check_position", "check_probability", "draw"]

STREAMS = 2**48
"""How many streams a seed has."""
NUMBERS = 2**63
"""How many numbers a stream has."""
POSITION = "position"


def check_position(op: str, position: Tensor) -> None:
    """Raise unless a position is an int64 tensor of three elements."""
    check_dtype(op, (torch.int64,), position=position)
    check_size(op, "position.shape", position.shape, (3,), "[seed, stream, offset]")


def check_place(op: str, count: int, position: Tensor) -> ValueRange | None:
    """Raise unless the stream exists and has `count` numbers from the offset on; reads the values.

    Returns bounds within which stream and offset always are right, though the latter may be more.
    """
    _, stream, offset = position.tolist()
    check_range(op, 0 <= stream < STREAMS, lambda: f"position[1], the stream, is {stream}, expected 0 to 2**48 - 1")
    check_range(
        op,
        0 <= offset <= NUMBERS - count,
        lambda: (
            f"position[2], the offset, is {offset}, expected 0 to 2**63 - {count}, as {count} numbers are drawn; "
            f"go on with another stream"
        ),
    )
    return ValueRange(position, 0, STREAMS, 0, first=1) if count <= NUMBERS - STREAMS else None


def draw(
    op: str,
    options: str = "",
    *,
    check_options: Callable[..., None] | None = None,
    dtypes: Dtypes | None = None,
    integers: torch.dtype | None = None,
    family: str,
) -> Callable[..., Any]:
    """Register an op `(Tensor like, Tensor position, <options>) -> Tensor`, a draw from a distribution.

    `like` gives size, dtype and device, and is never read; the output is row-major. `check_options` gets
    those that its parameters name. Floating-point ops name `dtypes`, others the dtype of `like`.
    """

    names = ["like", POSITION, *(option.split()[-1] for option in options.split(", ") if option)]
    check_named = None if check_options is None else by_name(check_options, op, names)

    def check_arguments(*args: Any) -> None:
        like, position = args[:2]
        if integers is not None:
            check_dtype(op, (integers,), like=like)
        check_position(op, position)
        if check_named is not None:
            check_named(*args)

    return define(
        op,
        f"(Tensor like, Tensor {POSITION}{', ' if options else ''}{options}) -> Tensor",
        check=check_arguments,
        check_values=lambda like, position: check_place(op, like.numel(), position),
        fake=lambda like: like.new_empty(like.shape),
        dtypes=dtypes,
        host=(POSITION,),
        constant=True,
        family=family,
    )


def check_probability(op: str, p: float) -> None:
    """Raise unless 0 <= p <= 1."""
    check(op, 0.0 <= p <= 1.0, lambda: f"p is {p}, expected a probability, 0 to 1")
