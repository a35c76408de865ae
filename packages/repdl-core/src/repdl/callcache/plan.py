"""What a recorded call does, as `Recording` in C takes it (`repdl/python/plan.hpp` reads the same fields).

Tensors have an index. Those of the call come first: its arguments in their order, each once, then the positions that it
draws. If the call has a derivative, they are the inputs of the node of autograd instead. Sources of memory are the
tensors of the call, then new tensors, then constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch


@dataclass(frozen=True)
class Span:
    """Where the memory of a tensor begins: `offset` bytes after that of a source."""

    source: int
    offset: int = 0


@dataclass(frozen=True)
class Argument:
    """What a function of Python is given: a tensor of the call, or a value."""

    tensor: int | None
    value: Any = None


@dataclass(frozen=True)
class ElementRange:
    """The elements of an int64 tensor of the call from `first` to `count` are at least `low` and less than `end`, or
    `other`."""

    tensor: int
    first: int
    count: int
    low: int
    end: int
    other: int


@dataclass(frozen=True)
class Check:
    """A function that raises if values are wrong; with `passes`, C calls it only where these elements do not."""

    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    passes: ElementRange | None


@dataclass(frozen=True)
class StepScalar:
    """A floating-point argument of a kernel: scalar `index` of the call, or `value`."""

    index: int | None
    value: float


@dataclass(frozen=True)
class Step:
    """A kernel, what it was called with, and the memory of each tensor among that.

    `scalars` are those among `arguments`, or empty if they are all as they were.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    outputs: tuple[torch.Tensor, ...]
    spans: tuple[Span, ...]
    scalars: tuple[StepScalar, ...]
    threads: int
    device: int


@dataclass(frozen=True)
class ScalarConstant:
    """Constant `constant` is a float of 4 or 8 bytes, whose value is scalar `scalar` of the call."""

    constant: int
    scalar: int
    itemsize: int


@dataclass(frozen=True)
class Result:
    """What the call returns: None, a new tensor, or a tensor of the call."""

    kind: Literal["none", "new", "argument"] = "none"
    index: int = 0


@dataclass(frozen=True)
class Node:
    """The node of autograd that the call makes.

    Attributes:
        function: `apply` of an autograd function; it gets the arguments, and the recording.
        output: which of its outputs the result is; None: all of them.
        shared: what all calls of the signature share: the derivative, and what is saved for it.
    """

    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    output: int | None
    shared: Any


@dataclass(frozen=True)
class Operand:
    """A tensor of the call whose memory, if one is written, no other operand may share."""

    tensor: int
    nbytes: int
    is_written: bool


@dataclass(frozen=True)
class Copy:
    """All of a new tensor goes into a tensor of the call."""

    source: int
    target: int
    nbytes: int


@dataclass(frozen=True)
class Draw:
    """A generator is asked for the position of `count` numbers."""

    take: Callable[[int], torch.Tensor]
    count: int


@dataclass(frozen=True)
class Plan:
    """A recorded call.

    Attributes:
        outputs: tensors without memory that say how each new tensor is allocated.
        constants: 0-D tensors.
        changed: tensors of the call that kernels write, which autograd is told.
    """

    steps: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()
    draws: tuple[Draw, ...] = ()
    outputs: tuple[torch.Tensor, ...] = ()
    constants: tuple[torch.Tensor, ...] = ()
    scalar_constants: tuple[ScalarConstant, ...] = ()
    results: tuple[Result, ...] = (Result(),)
    returns_tuple: bool = False
    node: Node | None = None
    operands: tuple[Operand, ...] = ()
    changed: tuple[int, ...] = ()
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What the call that records returns to C.

    Attributes:
        recording: None: calls of this signature are not cached.
        needs_scalars: the signature has to have the values of all scalars; then the next call tries again.
    """

    result: Any
    recording: Any = None
    needs_scalars: bool = False
