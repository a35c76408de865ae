"""The exceptions of RepDL, and the checks that raise them.

A message says op, actual value, expected value and, where there is one, the remedy:
`matmul: mat2.shape[0] is 7, expected 5 (= input.shape[1])`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn, TypeVar

import torch

E = TypeVar("E", bound="UnsupportedError")


class RepDLError(Exception):
    """Base of every error that RepDL raises on purpose.

    While `repdl.enable()` holds, the message ends with the module and the line that reached what raises: the program
    knows nothing of RepDL, and its own traceback names no module.
    """

    _ask: Callable[[], str] | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        where = "" if RepDLError._ask is None else RepDLError._ask()
        self.where = "" if where in super().__str__() else where

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.where}" if self.where else super().__str__()


class ContractError(RepDLError, ValueError):
    """A contract that does not exist or contradicts itself."""


class ShapeError(RepDLError, ValueError, RuntimeError):
    """A tensor of a shape that the op does not take."""


class UnsupportedError(RepDLError):
    """What torch has and the contract does not cover (yet): an op, an option, a dtype.

    No RuntimeError or NotImplementedError, which programs and torch itself catch for other reasons, such as memory
    that runs out, and go on. Except while Dynamo traces: at a NotImplementedError it breaks the graph, and the call
    itself then raises.
    """

    def __new__(cls: type[E], *args: Any) -> E:
        return super().__new__(_traced(cls) if torch.compiler.is_compiling() else cls, *args)  # type: ignore[arg-type]


@cache
def _traced(error: type[UnsupportedError]) -> Any:
    if issubclass(error, NotImplementedError):
        return error
    return type(error.__name__, (error, NotImplementedError), {"__module__": error.__module__})


class DTypeError(UnsupportedError, TypeError):
    """A tensor of a dtype outside the contract of the op."""


class ArgumentError(RepDLError, TypeError):
    """An argument of a Python type that the op does not take."""


class OutOfRangeError(ShapeError, IndexError):
    """A dimension or a class index that does not exist."""


class LinAlgError(RepDLError, torch.linalg.LinAlgError):  # type: ignore[name-defined]
    """A matrix that has not the factors asked for. Programs that catch `torch.linalg.LinAlgError` catch it."""


class DeviceError(RepDLError, ValueError, RuntimeError):
    """Tensors on devices that the op does not take together."""


class RankError(RepDLError, RuntimeError):
    """Ranks of a group that differ in what has to be the same, or whose reductions do."""


class BackendError(RepDLError, RuntimeError):
    """A backend that is unknown, failed to load, or lacks the op asked for."""


class CheckpointError(RepDLError, RuntimeError):
    """A checkpoint that can't be written, is damaged, or does not hold the state that it is asked for."""


class RecordError(RepDLError, RuntimeError):
    """A record of a run that can't be written or read."""


class ReceiptError(RepDLError, RuntimeError):
    """A receipt that can't be written, is none, or was edited."""


class UnavailableError(BackendError):
    """What a backend raises while it is loaded that this machine has no device for: it is not broken."""


class SlowBackendWarning(UserWarning):
    """The reference backend computes because no native one is installed, or kernels of a lower ISA level than could."""


class NameTakenError(RepDLError, ValueError):
    """A name of an op or family that another project has."""


class BrokenPluginWarning(UserWarning):
    """A part of another project's plug-in that failed to load and was left out."""


@contextmanager
def placed(where: Callable[[], str]) -> Iterator[None]:
    """Until the end of the block, the messages of errors end with what `where()` says."""
    before, RepDLError._ask = RepDLError._ask, where
    try:
        yield
    finally:
        RepDLError._ask = before


def check_dtype(
    op: str, supported: Sequence[torch.dtype] = (torch.float32,), /, **tensors: torch.Tensor | None
) -> None:
    """Raise unless each tensor (None is skipped) has one of the supported dtypes."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in supported:
            *others, last = (str(dtype).removeprefix("torch.") for dtype in supported)
            names = f"{', '.join(others)} or {last}" if others else last
            raise DTypeError(
                f"{op}: {name}.dtype is {str(tensor.dtype).removeprefix('torch.')}, expected {names}"
                f"{conversion(name, tensor.dtype, supported)}"
            )


def conversion(name: str, dtype: torch.dtype, supported: Sequence[torch.dtype], by: str = "{}.to({})") -> str:
    """What an error adds on how a tensor gets a supported dtype and loses nothing that it means; "" if it can't.

    Args:
        by: how a tensor of a name is converted to a dtype.
    """
    if not dtype.is_complex:
        return f"; convert it first, for example {by.format(name, supported[0])}"
    real = [s for s in supported if s.is_floating_point]
    if not real:
        return ""
    parts = f"torch.view_as_real({name})"
    made = parts if dtype.to_real() in real else f"{parts}.to({real[0]})"
    return f"; compute with its real and imaginary parts, for example {made}"


def check_device(op: str, **tensors: torch.Tensor | None) -> None:
    """Raise unless the tensors (None is skipped) are on one device."""
    first = None
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        first = first or (name, tensor.device)
        if tensor.device != first[1]:
            raise DeviceError(
                f"{op}: {name} is on {tensor.device}, expected {first[1]} (the device of {first[0]}); "
                f"move it with .to({str(first[1])!r})"
            )


def check_dim(op: str, expected: int | Sequence[int], **tensors: torch.Tensor | None) -> None:
    """Raise unless each tensor (None is skipped) has the expected number of dimensions."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dim() != expected:
            allowed = (expected,) if isinstance(expected, int) else tuple(expected)
            if tensor.dim() in allowed:
                continue
            raise ShapeError(
                f"{op}: {name}.dim() is {tensor.dim()} (shape {tuple(tensor.shape)}), "
                f"expected {' or '.join(map(str, allowed))}"
            )


def check_least_dim(op: str, least: int, shape: str = "", /, **tensors: torch.Tensor | None) -> None:
    """Raise unless each tensor (None is skipped) has `least` dimensions or more, those of `shape`, as (N, C, ...)."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dim() < least:
            raise ShapeError(f"{op}: {name}.dim() is {tensor.dim()}, expected {least} or more{shape and ' ' + shape}")


def check_square(op: str, **matrix: torch.Tensor) -> None:
    """Raise ShapeError unless a tensor, given by its name, is a square matrix, or a batch of them."""
    check_least_dim(op, 2, **matrix)
    for name, tensor in matrix.items():
        check_size(op, f"{name}.shape[-1]", tensor.shape[-1], tensor.shape[-2], f"{name}.shape[-2]")


def check_broadcasts_to(op: str, shape: Sequence[int], **tensors: torch.Tensor | None) -> None:
    """Raise unless each tensor (None is skipped) broadcasts to `shape`."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.shape != shape:
            sizes = zip(reversed(tensor.shape), reversed(shape))
            fits = tensor.dim() <= len(shape) and all(n in (1, size) for n, size in sizes)
            own = tuple(tensor.shape)
            check(op, fits, lambda: f"{name}.shape is {own}, expected a shape that broadcasts to {tuple(shape)}")


def check_one_of(op: str, allowed: Sequence[Any], **options: Any) -> None:
    """Raise `ShapeError` unless each option has one of the values that are allowed."""
    for name, value in options.items():
        if value not in allowed:
            raise ShapeError(f"{op}: {name} is {value!r}, expected one of {', '.join(map(str, allowed))}")


def check_least(op: str, least: float, **options: Any) -> None:
    """Raise unless each option, a number or a sequence of numbers, is at least `least`."""
    for name, given in options.items():
        values = given if isinstance(given, (list, tuple)) else [given]
        check(op, all(value >= least for value in values), lambda: f"{name} is {given}, expected {least} or more")


Message = str | Callable[[], str]
"""What is wrong. A function says it only when it is: f-strings cost time, and Dynamo can't trace
one that shows a symbolic size."""


def check_range(op: str, condition: bool, message: Message) -> None:
    """Raise `OutOfRangeError` with `message` unless `condition` holds."""
    if not condition:
        raise OutOfRangeError(f"{op}: {message if isinstance(message, str) else message()}")


def check_size(op: str, what: str, actual: Any, expected: Any, source: str) -> None:
    """Raise unless `actual == expected`, sizes or shapes; `source` says where the expectation comes from."""
    if actual != expected:
        shown, wanted = (tuple(size) if isinstance(size, torch.Size) else size for size in (actual, expected))
        raise ShapeError(f"{op}: {what} is {shown}, expected {wanted} (= {source})")


def check(op: str, condition: bool, message: Message) -> None:
    """Raise `ShapeError` with `message` unless `condition` holds."""
    if not condition:
        raise ShapeError(f"{op}: {message if isinstance(message, str) else message()}")


def check_tensor(op: str, **arguments: Any) -> None:
    """Raise unless each argument is a tensor."""
    for name, value in arguments.items():
        if not isinstance(value, torch.Tensor):
            raise_type(op, name, value, "a tensor")


def check_tensor_or_none(op: str, **arguments: Any) -> None:
    """Raise unless each argument is a tensor or None."""
    for name, value in arguments.items():
        if value is not None and not isinstance(value, torch.Tensor):
            raise_type(op, name, value, "a tensor or None")


def check_bool(op: str, **arguments: Any) -> None:
    """Raise unless each argument is True or False."""
    for name, value in arguments.items():
        if not isinstance(value, bool):
            raise_type(op, name, value, "True or False")


def raise_type(op: str, name: str, value: Any, expected: str) -> NoReturn:
    """Raise `ArgumentError`: an argument is not what is expected."""
    shown = "" if isinstance(value, torch.Tensor) else f" {repr(value)[:60]}"
    raise ArgumentError(f"{op}: {name} is {type(value).__name__}{shown}, expected {expected}")
