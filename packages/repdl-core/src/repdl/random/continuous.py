"""Draws of floating-point numbers, with torch's names and signatures."""

from __future__ import annotations

from typing import Any

import torch

from repdl.contract import ANY_CONTRACT
from repdl.dtypes.rounding import rounded
from repdl.errors import ArgumentError, check, check_range, check_tensor
from repdl.generators import draws
from repdl.generators.draws import Options, Tensor, fill, writable
from repdl.generators.generator import Generator
from repdl.ops.common import constant, floating
from repdl.ops.pointwise.cast import cast
from repdl.registry import functions as ops
from repdl.registry.arguments import as_float
from repdl.tensors.layout import broadcast_shapes

__all__ = [
    "cauchy_",
    "exponential_",
    "log_normal_",
    "normal",
    "normal_",
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "trunc_normal_",
    "uniform_",
]


def rand(*size: Any, generator: Generator | None = None, out: Tensor | None = None, **options: Any) -> Tensor:
    """Uniform in [0, 1): float32, float64 or 16-bit floats.

    Args:
        size: integers, or a sequence of them.
        options: dtype, layout, device, requires_grad, pin_memory, as torch's.

    Raises:
        ShapeError, DTypeError, UnsupportedError: for sizes and options that it does not take; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.rand.html
    """
    shape = draws.sizes("rand", size, options)
    asked = Options("rand", "uniform", None, out=out, **options)
    bounds = draws.bounds("rand", 0.0, 1.0, asked.dtype)
    return asked.finished(draws.draw("rand", "uniform", asked.blank(shape), generator, *bounds))


def randn(*size: Any, generator: Generator | None = None, out: Tensor | None = None, **options: Any) -> Tensor:
    """Normal with mean 0 and standard deviation 1: float32, float64 or 16-bit floats.

    Args:
        size: integers, or a sequence of them.
        options: dtype, layout, device, requires_grad, pin_memory, as torch's.

    Raises:
        ShapeError, DTypeError, UnsupportedError: for sizes and options that it does not take; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.randn.html
    """
    shape = draws.sizes("randn", size, options)
    asked = Options("randn", "normal", None, out=out, **options)
    return asked.finished(draws.draw("randn", "normal", asked.blank(shape), generator, 0.0, 1.0))


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: torch.memory_format = torch.preserve_format,
    **options: Any,
) -> Tensor:
    """`rand` of the size, dtype, device and memory format of `input`; element i of its shape has number i.

    Raises:
        DTypeError, UnsupportedError: for options that it does not take; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.rand_like.html
    """
    return _like("rand_like", rand, input, generator, memory_format, options)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: torch.memory_format = torch.preserve_format,
    **options: Any,
) -> Tensor:
    """`randn` of the size, dtype, device and memory format of `input`; element i of its shape has number i.

    Raises:
        DTypeError, UnsupportedError: for options that it does not take; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.randn_like.html
    """
    return _like("randn_like", randn, input, generator, memory_format, options)


def _like(
    name: str, function: Any, input: Tensor, generator: Any, memory_format: Any, options: dict[str, Any]
) -> Tensor:
    check_tensor(name, input=input)
    return laid_out(input, memory_format, lambda o: function(input.shape, generator=generator, **o), options)


def laid_out(input: Tensor, memory_format: Any, make: Any, options: dict[str, Any]) -> Tensor:
    """What `make` draws, in memory as `torch.empty_like(input, memory_format=...)`."""
    requires_grad = options.pop("requires_grad", False)
    options = {k: v for k, v in options.items() if v is not None}
    result: Tensor = make({"dtype": input.dtype, "device": input.device, **options})
    strides = torch.empty_like(input, device="meta", memory_format=memory_format).stride()
    if strides != result.stride():
        result = result.new_empty_strided(result.shape, strides).copy_(result)
    return result.requires_grad_() if requires_grad else result


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Normal with those means and standard deviations: `(mean, std)` with tensors, which broadcast, or numbers
    and a `size`. With tensors each element is `z * std + mean`, two roundings; no gradient reaches them.

    Raises:
        ShapeError, OutOfRangeError, DTypeError, UnsupportedError: if a `std` is negative or NaN, for shapes that do
            not broadcast, and for options that it does not take; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.normal.html
    """
    tensors = [t for t in (mean, std) if isinstance(t, torch.Tensor)]
    if not tensors:
        if size is None:
            raise ArgumentError("normal: size is None, expected one beside numbers for mean and std")
        mean, std = draws.finite("normal", "mean", mean), draws.at_least_zero("normal", "std", std)
        asked = Options("normal", "normal", None, out=out, **options)
        like = asked.blank(draws.sizes("normal", (size,)))
        return asked.finished(draws.draw("normal", "normal", like, generator, mean, std))
    if size is not None or options:
        raise ArgumentError("normal: size or options beside tensors, expected none: they are those of the tensors")
    try:
        shape = broadcast_shapes(*(t.shape for t in tensors))
    except RuntimeError:
        shapes = " and ".join(str(tuple(t.shape)) for t in tensors)
        check("normal", False, f"mean and std have the shapes {shapes}, expected ones that broadcast")
    first = tensors[0]
    asked = Options("normal", "normal", first.dtype, out=out, device=first.device)
    mean = mean.detach() if isinstance(mean, torch.Tensor) else draws.finite("normal", "mean", mean)
    if isinstance(std, torch.Tensor):
        std = std.detach()
        bad = _not_deviations(std)
        if bad is not None:
            draws.at_least_zero("normal", f"std{bad[0]}", bad[1])
    else:
        std = draws.at_least_zero("normal", "std", std)
    z = draws.draw("normal", "normal", asked.blank(shape), generator, 0.0, 1.0)
    result = ops.add(ops.mul(z, _operand(std, z), ANY_CONTRACT), _operand(mean, z), ANY_CONTRACT)
    return asked.finished(result)


def _operand(value: Any, like: Tensor) -> Tensor:
    if isinstance(value, torch.Tensor):
        return floating(value.to(like.device), like.dtype)
    return constant(value, like.dtype, like.device)


def _not_deviations(std: Tensor) -> tuple[list[int], float] | None:
    """Where an element is negative, infinite or NaN, and that element."""
    if std.is_meta or torch.compiler.is_compiling() or not std.is_floating_point():
        wrong = std < 0 if not std.is_meta else None
    else:
        wrong = ~torch.isfinite(std) | (torch.signbit(std) & (std != 0))
    if wrong is None or not bool(wrong.any()):
        return None
    where = wrong.nonzero()[0].tolist()
    return where, float(std[tuple(where)])


def uniform_(tensor: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers in [from, to), in place: float32, float64 or 16-bit floats; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless from <= to, both and their difference finite in the dtype; nothing
            is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.uniform_.html
    """
    writable("uniform_", tensor)
    draws.takes("uniform_", "uniform", tensor.dtype)
    return fill("uniform_", "uniform", tensor, generator, *draws.bounds("uniform_", from_, to, tensor.dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers, in place: float32, float64 or 16-bit floats; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: if `std` is negative, or a number not finite; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.normal_.html
    """
    writable("normal_", tensor)
    mean, std = draws.finite("normal_", "mean", mean), draws.at_least_zero("normal_", "std", std)
    return fill("normal_", "normal", tensor, generator, mean, std)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers that lie in [a, b], in place: float32, float64 or 16-bit floats; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless std > 0 and a <= b, mean and std finite; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.trunc_normal_
    """
    name = "trunc_normal_"
    writable(name, tensor)
    mean, std = draws.finite(name, "mean", mean), draws.positive(name, "std", std)
    a, b = as_float(name, "a", a), as_float(name, "b", b)
    check_range(name, a <= b, lambda: f"a is {a} and b is {b}, expected a <= b")
    far = 2.0**60
    check_range(
        name,
        (a - mean) / std <= far and (b - mean) / std >= -far,
        lambda: f"a is {a} and b is {b}, expected numbers within 2**60 standard deviations of mean = {mean}",
    )
    return fill(name, "truncated_normal", tensor, generator, mean, std, a, b)


def exponential_(tensor: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential numbers of rate `lambd`, in place: float32, float64 or 16-bit floats; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless 0 < lambd < inf; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.exponential_.html
    """
    writable("exponential_", tensor)
    return fill("exponential_", "exponential", tensor, generator, draws.positive("exponential_", "lambd", lambd))


def log_normal_(tensor: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with the exponentials of normal numbers, in place: float32, float64 or 16-bit floats; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless std > 0 and both are finite; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.log_normal_.html
    """
    name = "log_normal_"
    writable(name, tensor)
    mean, std = draws.finite(name, "mean", mean), draws.positive(name, "std", std)
    draws.takes(name, "exp", tensor.dtype)
    if tensor.is_meta:
        return tensor
    like = draws.blank(tensor.shape, _wide(tensor.dtype), tensor.device)
    return tensor.copy_(cast(ops.exp(draws.draw(name, "normal", like, generator, mean, std)), tensor.dtype))


def cauchy_(tensor: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with Cauchy numbers, in place: float32, float64 or 16-bit floats; returns the tensor.

    Raises:
        OutOfRangeError, UnsupportedError: unless sigma > 0 and both are finite; nothing is drawn.

    Contract: distributions v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.cauchy_.html
    """
    name = "cauchy_"
    writable(name, tensor)
    median, sigma = draws.finite(name, "median", median), draws.positive(name, "sigma", sigma)
    draws.takes(name, "sin", tensor.dtype)
    if tensor.is_meta:
        return tensor
    dtype = _wide(tensor.dtype)
    if dtype is torch.float64:
        high, low = draws.words(name, tensor.shape, tensor.device, generator, 2)
        word, unit = high.to(torch.int64) << 32 | low.to(torch.int64) & 0xFFFFFFFF, 2.0**-64
    else:
        (word,), unit = draws.words(name, tensor.shape, tensor.device, generator, 1), 2.0**-32
    turn = constant(rounded(_PI, dtype) * unit, dtype, tensor.device)
    t = ops.mul(floating(word, dtype), turn, ANY_CONTRACT)
    ratio = ops.div(ops.sin(t), ops.cos(t), ANY_CONTRACT)
    middle = constant(median, dtype, tensor.device).expand(tensor.shape)
    return tensor.copy_(cast(ops.add_alpha(middle, ratio, sigma, ANY_CONTRACT), tensor.dtype))


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the arithmetic."""
    return torch.float64 if dtype is torch.float64 else torch.float32


_PI = float.fromhex("0x1.921fb54442d18p+1")
