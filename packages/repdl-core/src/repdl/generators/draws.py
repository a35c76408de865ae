"""What the functions of `repdl.random` share: checks before a generator goes on, sizes, dtypes, `out`.

A draw is the last thing that can fail: whatever is wrong with the arguments raises before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl.dtypes import ALL, rounding
from repdl.errors import ArgumentError, DTypeError, UnsupportedError, check, check_dtype, check_range, check_tensor
from repdl.generators.generator import chosen
from repdl.registry import OPS, functions
from repdl.registry.arguments import as_float, as_int
from repdl.tensors.overlap import check_apart
from repdl.tensors.values import assert_on_device

Tensor = torch.Tensor
_BELOW_ONE = {
    torch.float32: 1 - 2.0**-24,
    torch.float64: 1 - 2.0**-53,
    torch.bfloat16: 1 - 2.0**-8,
    torch.float16: 1 - 2.0**-11,
}


def draw(name: str, op: str, like: Tensor, generator: Any, *options: Any) -> Tensor:
    """A draw of the size, dtype and device of `like`, whose elements are not read, by a registered op.

    Args:
        name: the function that is called, for errors.
    """
    return getattr(functions, op)(like, chosen(name, generator).position(like.numel()), *options)


def words(name: str, size: Sequence[int], device: torch.device, generator: Any, planes: int) -> list[Tensor]:
    """Words of the first planes of one draw, as int32."""
    like = blank(size, torch.int32, device)
    position = chosen(name, generator).position(like.numel())
    return [functions.random_words(like, position, plane) for plane in range(planes)]


def blank(size: Sequence[int], dtype: torch.dtype, device: Any) -> Tensor:
    """A tensor that says size, dtype and device, with the memory of one element."""
    return torch.empty((), dtype=dtype, device=device).expand(list(size))


def sizes(name: str, size: Sequence[Any], options: dict[str, Any] | None = None) -> list[int]:
    """`rand(2, 3)`, `rand((2, 3))` and `rand(size=(2, 3))` alike, as integers that are not negative."""
    if options and "size" in options and not size:
        size = (options.pop("size"),)
    if len(size) == 1 and isinstance(size[0], (tuple, list, torch.Size)):
        size = size[0]
    found = [as_int(name, f"size[{i}]", n) for i, n in enumerate(size)]
    check(name, all(n >= 0 for n in found), lambda: f"size is {found}, expected no negative one")
    return found


class Options:
    """torch's options of a new tensor, checked: out, dtype, layout, device, pin_memory, requires_grad."""

    def __init__(
        self,
        name: str,
        op: str | None,
        default: torch.dtype | None,
        *,
        out: Any = None,
        dtype: torch.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool | None = False,
        **others: Any,
    ) -> None:
        if others:
            raise ArgumentError(
                f"{name}: got {', '.join(others)}, expected no others than generator, out, dtype, layout, device, "
                f"requires_grad and pin_memory"
            )
        if out is not None:
            check_tensor(name, out=out)
        if layout not in (None, torch.strided):
            raise UnsupportedError(f"{name}: layout is {layout}, expected torch.strided")
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise ArgumentError(f"{name}: dtype is {type(dtype).__name__}, expected a torch.dtype or None")
        self.dtype = dtype or (default if out is None else out.dtype) or torch.get_default_dtype()
        self.device = None if device is None else torch.device(device)  # None: the default one
        if out is not None:
            if self.dtype is not out.dtype:
                raise DTypeError(f"{name}: dtype is {self.dtype}, expected that of out, {out.dtype}")
            check(
                name,
                self.device is None or self.device.type == out.device.type,
                lambda: f"device is {self.device}, expected that of out, {out.device}",
            )
            self.device = out.device
            writable(name, out, "out")
        if op is not None:
            takes(name, op, self.dtype)
        if requires_grad and not self.dtype.is_floating_point:
            raise DTypeError(f"{name}: requires_grad is True for {self.dtype}, expected a floating-point dtype")
        self.out, self.requires_grad, self.pin_memory = out, requires_grad, bool(pin_memory)

    def blank(self, size: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
        """A `like` for `draw`."""
        return blank(size, dtype or self.dtype, self.device)

    def finished(self, result: Tensor) -> Tensor:
        """The tensor that the caller gets: `out`, or the result with the options that it asked for."""
        if self.out is not None:
            if self.out.shape != result.shape:
                self.out.resize_(result.shape)
            with torch.no_grad():
                return self.out.copy_(result)
        if result.dtype is not self.dtype:
            result = result.to(self.dtype)
        if self.pin_memory:
            result = result.pin_memory()
        return result.requires_grad_() if self.requires_grad else result


def takes(name: str, op: str, dtype: torch.dtype) -> None:
    """Raise unless the op that draws has a kernel for the dtype."""
    if not OPS[op].takes(dtype):
        storage = OPS[op].storage
        known = ", ".join(str(d).removeprefix("torch.") for d in storage.dtypes.supported) if storage else ""
        raise UnsupportedError(
            f"{name}: dtype is {str(dtype).removeprefix('torch.')}, expected {known}; draw in one of them and convert"
        )


def writable(name: str, tensor: Tensor, what: str = "tensor") -> Tensor:
    """`tensor`, if a draw can be written to it; raises otherwise."""
    check_tensor(name, **{what: tensor})
    if tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled():
        raise UnsupportedError(
            f"{name}: {what} is a leaf that requires a gradient, expected one that does not; call it under "
            f"torch.no_grad()"
        )
    check_apart(name, **{what: tensor})
    return tensor


def fill(name: str, op: str, tensor: Tensor, generator: Any, *options: Any) -> Tensor:
    """`tensor`, with a draw by a registered op in it, in the row-major order of its elements."""
    takes(name, op, tensor.dtype)
    chosen(name, generator)
    if tensor.is_meta:
        return tensor
    return tensor.copy_(draw(name, op, blank(tensor.shape, tensor.dtype, tensor.device), generator, *options))


def finite(name: str, what: str, value: Any) -> float:
    """A number that is finite, as a double."""
    value = as_float(name, what, value)
    check_range(name, abs(value) < float("inf"), lambda: f"{what} is {value}, expected a finite number")
    return value


def at_least_zero(name: str, what: str, value: Any) -> float:
    """A finite number that is not negative."""
    value = finite(name, what, value)
    check_range(name, value >= 0, lambda: f"{what} is {value}, expected 0 or more")
    return value


def positive(name: str, what: str, value: Any) -> float:
    """A finite number above 0."""
    value = finite(name, what, value)
    check_range(name, value > 0, lambda: f"{what} is {value}, expected more than 0")
    return value


def probability(name: str, p: Any, what: str = "p") -> float:
    """A number from 0 to 1."""
    p = as_float(name, what, p)
    check_range(name, 0 <= p <= 1, lambda: f"{what} is {p}, expected a probability, 0 to 1")
    return p


def bounds(name: str, low: Any, high: Any, dtype: torch.dtype) -> tuple[float, float, float]:
    """from, to and the largest number of the dtype below `to`, for the op `uniform`."""
    low, high = finite(name, "from", low), finite(name, "to", high)
    most = torch.finfo(dtype).max
    check_range(
        name,
        -most <= low <= high <= most and high - low <= most,
        lambda: f"from is {low} and to is {high}, expected from <= to and to - from <= {most}, the largest {dtype}",
    )
    if low == 0 and high == 1:
        return low, high, _BELOW_ONE[dtype]
    start = rounding.rounded(low, dtype)
    below = rounding.rounded(high, dtype)
    if below >= high:
        below = _next_below(below, dtype)
    return low, high, max(start, below)


def _next_below(value: float, dtype: torch.dtype) -> float:
    pattern, sign = rounding.element(value, dtype), 1 << 8 * dtype.itemsize - 1
    if pattern in (0, sign):
        return rounding.value_of(sign | 1, dtype)
    return rounding.value_of(pattern + 1 if pattern & sign else pattern - 1, dtype)


def checked_probabilities(name: str, p: Tensor, what: str = "p") -> Tensor:
    """A floating-point tensor of numbers from 0 to 1; raises otherwise. Patterns are compared, not values."""
    check_dtype(name, ALL, **{what: p})
    if p.is_meta or torch.compiler.is_compiling():
        return p
    width = 8 * p.dtype.itemsize
    pattern = p.detach().view({16: torch.int16, 32: torch.int32, 64: torch.int64}[width])
    one = rounding.element(1.0, p.dtype)
    right = ((pattern >= 0) & (pattern <= one)) | (pattern == -(1 << width - 1))  # or the negative zero
    if assert_on_device(name, right, lambda r: r, f"a number of {what} is no probability, 0 to 1"):
        return p
    if not bool(right.all()):
        where = (~right).nonzero()[0].tolist()
        check_range(name, False, f"{what}{where} is {p[tuple(where)].item()}, expected a probability, 0 to 1")
    return p
