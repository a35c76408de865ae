"""What happens in a call while it is traced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from repdl.callcache import spans


class ValueRange(NamedTuple):
    """The range in which a value check passes: elements of an int64 tensor from `first` on that are at least `low` and
    less than `end`, or `other`. `is_exact`: it fails everywhere else.
    """

    tensor: torch.Tensor
    low: int
    end: int
    other: int
    first: int = 0
    is_exact: bool = False


NOT_READ = ValueRange(torch.empty(0, dtype=torch.int64), 0, 0, 0)
"""What a check of values returns that has read none, for calls without the tensor that it looks at."""


@dataclass(frozen=True)
class KernelCall:
    """A kernel that ran."""

    kernel: Any
    arguments: Sequence[Any]
    outputs: Sequence[torch.Tensor]
    threads: int
    device: int


@dataclass(frozen=True)
class ValueCheck:
    """A function that read the values of tensors, and the range in which it passes, if it is one."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    passes: ValueRange | None


@dataclass(frozen=True)
class PositionDraw:
    """A position of a generator; `take(count)` gives that of a later call."""

    position: torch.Tensor
    take: Callable[[int], torch.Tensor]
    count: int


@dataclass(frozen=True)
class Derivative:
    """An op with a derivative was called: `apply` of the autograd function that replays use, the tensors, the output,
    and what calls of the signature share."""

    apply: Callable[..., Any]
    tensors: Sequence[torch.Tensor]
    output: Any
    shared: Any

    def saved(self) -> list[torch.Tensor | None]:
        """What it saves."""
        outputs = self.output if isinstance(self.output, tuple) else (self.output,)
        known = [*self.tensors, *outputs]
        return [None if index is None else known[index] for index in self.shared.saved]


@dataclass(frozen=True)
class Write:
    """A result went into a tensor."""

    target: torch.Tensor
    result: torch.Tensor


@dataclass(frozen=True)
class Constant:
    """A 0-D tensor, and the scalar that it was made of, if it was."""

    tensor: torch.Tensor
    value: Any


@dataclass
class Trace:
    """What happened in one call of a function, in order.

    Attributes:
        is_cacheable: whether running the kernels again is all that the call does, as far as its ops know.
        changed: tensors that ops have changed.
        copies: results that went into tensors of the call, by `copy_result`.
        writes: results of forms in place.
    """

    kernel_calls: list[KernelCall] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    derivatives: list[Derivative] = field(default_factory=list)
    checks: list[ValueCheck] = field(default_factory=list)
    draws: list[PositionDraw] = field(default_factory=list)
    changed: list[torch.Tensor] = field(default_factory=list)
    copies: list[Write] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    is_cacheable: bool = True

    def add_constant(self, tensor: torch.Tensor, value: Any) -> None:
        """A number became a 0-D tensor, unless a graph that is being captured will make it."""
        self.is_cacheable &= not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
        self.constants.append(Constant(tensor, value))


class _Thread(threading.local):
    def __init__(self) -> None:
        self.trace: Trace | None = None  # of each thread from its first look on: Dynamo guards on what is there


THREAD = _Thread()
"""`trace`: of the call that this thread records, if it does."""


def trace_call(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Trace]:
    """The result of a call, and what happened in it."""
    trace = THREAD.trace = Trace()
    try:
        return function(*args, **kwargs), trace
    finally:
        THREAD.trace = None


def do_not_cache() -> None:
    """Where a call does more than run kernels, or reads the values of tensors."""
    if THREAD.trace is not None:
        THREAD.trace.is_cacheable = False


def record_check(function: Callable[..., Any], arguments: Sequence[Any], passes: ValueRange | None) -> None:
    """Record a check of values, which later calls repeat, unless C finds that the values pass.

    A check of values on a device is not recorded: its kernels look at them.
    """
    if THREAD.trace is not None and passes is not NOT_READ and (passes is None or spans.is_on_host(passes.tensor)):
        THREAD.trace.checks.append(ValueCheck(function, arguments, passes))


def record_draw(position: torch.Tensor, take: Callable[[int], torch.Tensor], count: int) -> None:
    """Record that the call took a position from a generator that no argument is; `take(count)` gives a later one.

    If a position is recorded twice, the later record holds.
    """
    if THREAD.trace is not None:
        draws = THREAD.trace.draws
        draws[:] = [*(draw for draw in draws if draw.position is not position), PositionDraw(position, take, count)]


def record_write(target: torch.Tensor, result: torch.Tensor) -> None:
    """Record that a form in place has written a result into its tensor."""
    if THREAD.trace is not None:
        THREAD.trace.writes.append(Write(target, result))


def record_change(tensors: Sequence[torch.Tensor]) -> None:
    """Record that an op has changed its arguments."""
    if THREAD.trace is not None:
        THREAD.trace.changed += tensors


def copy_result(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy what a call has computed into one of its tensors."""
    if THREAD.trace is not None:
        plain = source.device == target.device and source.dtype is target.dtype
        if plain and source.is_contiguous() and target.is_contiguous() and source.shape == target.shape:
            THREAD.trace.copies.append(Write(target, source))
        else:
            do_not_cache()
    target.copy_(source)
