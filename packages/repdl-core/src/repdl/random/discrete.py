"""Draws of integers, bits and indices, with torch's names and signatures."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from repdl.contract import ANY_CONTRACT
from repdl.dtypes.rounding import FORMATS
from repdl.errors import ArgumentError, DTypeError, UnsupportedError, check, check_range, check_tensor
from repdl.generators import draws
from repdl.generators.draws import Options, Tensor, writable
from repdl.generators.generator import Generator
from repdl.ops.common import constant, floating
from repdl.ops.sampling.distributions import RATES, check_within
from repdl.random.continuous import laid_out
from repdl.registry import functions as ops
from repdl.registry.arguments import as_int

__all__ = [
    "bernoulli",
    "bernoulli_",
    "binomial",
    "geometric_",
    "poisson",
    "randint",
    "randint_like",
    "random_",
    "randperm",
]

_LEAST, _MOST = -(2**63), 2**63  # of int64, the second excluded


def _range_of(name: str, dtype: torch.dtype) -> tuple[int, int]:
    """Between which integers all are numbers of the dtype, both included."""
    if dtype is torch.bool:
        return 0, 1
    if dtype in FORMATS:
        return -(2 ** FORMATS[dtype].precision), 2 ** FORMATS[dtype].precision
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.uint64:
        raise UnsupportedError(
            f"{name}: dtype is {dtype}, expected bool, an integer up to int64, float32, float64 or a 16-bit float"
        )
    info = torch.iinfo(dtype)
    return int(info.min), int(info.max)


def _check_integers(name: str, low: int, high: int, dtype: torch.dtype) -> None:
    least, most = _range_of(name, dtype)
    check_range(name, low < high, lambda: f"low is {low} and high is {high}, expected low < high")
    check_range(
        name,
        least <= low and high - 1 <= most,
        lambda: f"low is {low} and high is {high}, expected {least} to {most}, the integers that {dtype} has all of",
    )


def _integers(name: str, like: Tensor, low: int, high: int, generator: Any) -> Tensor:
    """int64 in [low, high), of the size and device of `like`, which is int64."""
    if high - low == 2**64:  # every 64-bit word
        upper, lower = draws.words(name, like.shape, like.device, generator, 2)
        return (upper.to(torch.int64) << 32 | lower.to(torch.int64) & 0xFFFFFFFF) ^ _LEAST
    if high == _MOST:  # which is no int64: the draw is low + floor(...), so it may be moved
        return draws.draw(name, "random_integers", like, generator, low - 1, high - 1) + 1
    return draws.draw(name, "random_integers", like, generator, low, high)


def _low_high_size(name: str, args: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[int, int, Any]:
    """torch's overloads: (high, size) and (low, high, size), by position or name."""
    given = list(args)
    if size is None and given and isinstance(given[-1], (tuple, list, torch.Size)):
        size = given.pop()
    if len(given) == 1 and high is None:
        high = given.pop()
    elif given and low is None:
        low = given.pop(0)
        if given and high is None:
            high = given.pop(0)
    if given or high is None or size is None:
        raise ArgumentError(f"{name}: got {args}, expected (high, size) or (low, high, size), size a tuple")
    return as_int(name, "low", 0 if low is None else low), as_int(name, "high", high), size


def randint(
    *args: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """`randint(low=0, high, size)`: integers in [low, high), each as likely as any other; int64 by default.

    Args:
        options: dtype, layout, device, requires_grad, pin_memory, as torch's.

    Raises:
        ArgumentError, OutOfRangeError, DTypeError, UnsupportedError: unless low < high and the dtype has all integers
            between, and for options that it does not take; nothing is drawn.

    Contract: random v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.randint.html
    """
    low, high, size = _low_high_size("randint", args, low, high, size)
    asked = Options("randint", None, torch.int64 if out is None else None, out=out, **options)
    _check_integers("randint", low, high, asked.dtype)
    like = asked.blank(draws.sizes("randint", (size,)), torch.int64)
    return asked.finished(_integers("randint", like, low, high, generator).to(asked.dtype))


def randint_like(
    input: Tensor,
    *args: Any,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    memory_format: torch.memory_format = torch.preserve_format,
    **options: Any,
) -> Tensor:
    """`randint_like(input, low=0, high)`: `randint` of the size, dtype, device and memory format of `input`.

    Raises:
        ArgumentError, OutOfRangeError, DTypeError, UnsupportedError: as `randint`; nothing is drawn.

    Contract: random v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.randint_like.html
    """
    check_tensor("randint_like", input=input)
    low, high, size = _low_high_size("randint_like", args, low, high, input.shape)
    return laid_out(
        input,
        memory_format,
        lambda o: randint(low=low, high=high, size=size, generator=generator, **o),
        options,
    )


def random_(tensor: Tensor, *bounds: int | None, generator: Generator | None = None) -> Tensor:
    """Fill with integers, in place: `random_(tensor, to)` in [0, to), `random_(tensor, from, to)` in [from, to).

    Without `to`, or with None for it: up to the largest integer of the dtype; of a floating-point dtype, up to
    which it has all, 2**24 of float32. Returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless from < to and the dtype has all integers between; nothing is drawn.

    Contract: random v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.random_.html
    """
    name = "random_"
    if len(bounds) > 2:
        raise ArgumentError(f"{name}: got {bounds}, expected (), (to) or (from, to)")
    writable(name, tensor)
    low, high = bounds if len(bounds) == 2 else (0, *bounds) if bounds else (0, None)
    low = as_int(name, "from", low)
    high = _range_of(name, tensor.dtype)[1] + 1 if high is None else as_int(name, "to", high)
    _check_integers(name, low, high, tensor.dtype)
    if tensor.is_meta:
        return tensor
    like = draws.blank(tensor.shape, torch.int64, tensor.device)
    return tensor.copy_(_integers(name, like, low, high, generator))


def randperm(n: int, *, generator: Generator | None = None, out: Tensor | None = None, **options: Any) -> Tensor:
    """The integers 0 to n - 1 in an order that is as likely as any other; int64 by default.

    Args:
        options: dtype, layout, device, requires_grad, pin_memory, as torch's.

    Raises:
        OutOfRangeError, DTypeError, UnsupportedError: if n is negative or the dtype does not have all of them, and
            for options that it does not take; nothing is drawn.

    Contract: random v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.randperm.html
    """
    n = as_int("randperm", "n", n)
    check_range("randperm", n >= 0, lambda: f"n is {n}, expected 0 or more")
    asked = Options("randperm", None, torch.int64 if out is None else None, out=out, **options)
    _check_integers("randperm", 0, max(n, 1), asked.dtype)
    return asked.finished(draws.draw("randperm", "random_permutation", asked.blank([n], torch.int64), generator))


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probabilities that `input` has, else 0; with a number `p`, of that probability and its size.

    Float32, float64 or 16-bit floats. The gradient is 0, as of steps.

    Raises:
        OutOfRangeError, DTypeError: if a probability is not in [0, 1]; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.bernoulli.html
    """
    check_tensor("bernoulli", input=input)
    asked = Options("bernoulli", None, input.dtype, out=out, device=input.device)
    if p is not None:
        p = draws.probability("bernoulli", p)
        draws.takes("bernoulli", "bernoulli_scalar", input.dtype)
        result = draws.draw("bernoulli", "bernoulli_scalar", asked.blank(input.shape, input.dtype), generator, p)
    else:
        draws.takes("bernoulli", "bernoulli", input.dtype)
        draws.checked_probabilities("bernoulli", input, "input")
        result = draws.draw("bernoulli", "bernoulli", input, generator)
    return result if out is None else asked.finished(result)


def bernoulli_(tensor: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 of the probability `p`, a number or a tensor that broadcasts, else 0, in place; any dtype.

    Raises:
        OutOfRangeError, DTypeError, ShapeError: if a probability is not in [0, 1]; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.bernoulli_.html
    """
    writable("bernoulli_", tensor)
    if isinstance(p, torch.Tensor):
        draws.checked_probabilities("bernoulli_", p)
        try:
            p = p.detach().expand(tensor.shape)
        except RuntimeError:
            shapes = f"p.shape is {tuple(p.shape)}, expected one that broadcasts to {tuple(tensor.shape)}"
            check("bernoulli_", False, shapes)
        return tensor if tensor.is_meta else tensor.copy_(draws.draw("bernoulli_", "bernoulli", p, generator))
    p = draws.probability("bernoulli_", p)
    if tensor.is_meta:
        return tensor
    like = draws.blank(tensor.shape, torch.float32, tensor.device)
    return tensor.copy_(draws.draw("bernoulli_", "bernoulli_scalar", like, generator, p))


def geometric_(tensor: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first of probability `p`, 1 or more, in place; any dtype but bool.

    The numbers are float32, converted to the dtype; to its largest number where it has no such.

    Raises:
        OutOfRangeError, DTypeError: unless 0 < p < 1; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.geometric_.html
    """
    name = "geometric_"
    writable(name, tensor)
    p = draws.finite(name, "p", p)
    check_range(name, 0 < p < 1, lambda: f"p is {p}, expected a number between 0 and 1, neither of them")
    if tensor.dtype is torch.bool or tensor.dtype.is_complex:
        raise DTypeError(f"{name}: tensor.dtype is {tensor.dtype}, expected an integer or a floating-point dtype")
    if tensor.is_meta:
        return tensor
    e = draws.draw(name, "exponential", draws.blank(tensor.shape, torch.float32, tensor.device), generator, 1.0)
    rate = ops.neg(ops.log1p(constant(-p, torch.float32, tensor.device)))
    trials = ops.div(e, rate, ANY_CONTRACT).ceil_().clamp_(min=1.0)
    if not tensor.is_floating_point():
        most = torch.iinfo(tensor.dtype).max  # in float64, which has the integers of up to 32 bits
        return tensor.copy_(trials.to(torch.float64).clamp_(max=float(most if most < 2**53 else 2**63 - 1024)))
    return tensor.copy_(floating(trials, tensor.dtype))


UNAVAILABLE = frozenset({"binomial"})
"""Functions that raise."""


def _unavailable(name: str) -> NoReturn:
    raise UnsupportedError(
        f"{name}: not available yet; expected one of rand, randn, randint, randperm, bernoulli, poisson, multinomial, "
        f"normal, uniform_, normal_, trunc_normal_, exponential_, cauchy_, log_normal_, geometric_, bernoulli_, random_"
    )


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of the rates that `input` has: float32, float64 or 16-bit floats. The gradient is 0, as of steps.

    Raises:
        OutOfRangeError, UnsupportedError: if a rate is not in [0, 2**40], or of another dtype; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.poisson.html
    """
    name = "poisson"
    check_tensor(name, input=input)
    draws.takes(name, name, input.dtype)
    if not torch.compiler.is_compiling():
        check_within(name, "input", input.detach(), *RATES)
    return draws.draw(name, name, input, generator)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Not available yet.

    Raises:
        UnsupportedError: always; it says which functions there are.
    """
    _unavailable("binomial")
