"""Where outputs lie if strides of 0 repeat operands: torch's strides, in every dtype and for every pair of layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, combinations, permutations, product

import torch
from torch.nn import functional as F

from repdl import ops
from repdl.dtypes import ALL
from repdl.errors import DTypeError
from repdl.testing import assert_same_bits, uniform

Tensor = torch.Tensor
Function = Callable[..., Tensor]


def both(*names: str) -> dict[str, tuple[Function, Function]]:
    """RepDL's function and torch's."""
    return {name: (getattr(ops, name), getattr(torch if hasattr(torch, name) else F, name)) for name in names}


ONE = both("abs", "neg", "exp", "sqrt", "square", "relu", "sigmoid", "gelu", "hardtanh", "leaky_relu") | {
    "mul by a number": (lambda x: ops.mul(x, 2.0), lambda x: x * 2.0),
    "clamp": (lambda x: ops.clamp(x, 0.1, 0.7), lambda x: x.clamp(0.1, 0.7)),
    "softmax": (lambda x: ops.softmax(x, 1), lambda x: x.softmax(1)),
    "sum": (lambda x: ops.sum(x, 1), lambda x: x.sum(1)),
    "cumsum": (lambda x: ops.cumsum(x, 1), lambda x: x.cumsum(1)),
}
TWO = both("add", "sub", "mul", "div", "pow", "maximum", "minimum", "fmax", "fmin", "fmod", "remainder", "hypot") | {
    "atan2": (ops.atan2, torch.atan2),
    "logaddexp": (ops.logaddexp, torch.logaddexp),
    "lerp by a number": (lambda x, y: ops.lerp(x, y, 0.3), lambda x, y: torch.lerp(x, y, 0.3)),
    "lerp": (lambda x, y: ops.lerp(x, y, y), lambda x, y: torch.lerp(x, y, y)),
    "addcmul": (lambda x, y: ops.addcmul(x, y, x), lambda x, y: torch.addcmul(x, y, x)),
    "where": (lambda x, y: ops.where(x > 0.5, x, y), lambda x, y: torch.where(x > 0.5, x, y)),
    "a row": (lambda x, y: ops.add(x[:1], y), lambda x, y: x[:1] + y),
    "mse_loss": (lambda x, y: ops.mse_loss(x, y, reduction="none"), lambda x, y: F.mse_loss(x, y, reduction="none")),
}


def views(shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Each order of dimensions, each set of them repeated by a stride of 0."""
    dims = range(len(shape))
    for order in permutations(dims):
        dense = torch.empty_permuted(shape, order, dtype=dtype).copy_(uniform(1, *shape).abs() + 0.25)
        for repeated in chain.from_iterable(combinations(dims, count) for count in range(len(shape) + 1)):
            once = dense[tuple(slice(1) if d in repeated else slice(None) for d in dims)]
            yield f"order {order}, repeated {repeated}", once.expand(shape)


def check(name: str, functions: tuple[Function, Function], operands: list[tuple[str, Tensor]]) -> bool:
    ours, theirs = functions
    given = [x for _, x in operands]
    what = f"{name}, {given[0].dtype}, " + "; ".join(says for says, _ in operands)
    try:
        result = ours(*given)
    except DTypeError:
        assert given[0].dtype is torch.float64, what
        return False
    expected = theirs(*given)
    assert (result.dtype, result.stride()) == (expected.dtype, expected.stride()), f"{what}: {result.stride()}"
    assert_same_bits(result, ours(*(x.contiguous() for x in given)), what)
    return True


def test_repeated__strides_are_torchs_in_every_dtype() -> None:
    count = 0
    for dtype in ALL:
        for shape in ((3, 4), (2, 3, 4)):
            every = [*views(shape, dtype)]
            for name, functions in ONE.items():
                count += all(check(name, functions, [one]) for one in every)
        every = [*views((3, 4), dtype)]
        for name, functions in TWO.items():
            count += all(check(name, functions, [*pair]) for pair in product(every, every))
    assert count > 150


IMAGES = {
    name: tuple(make(f) for f in (getattr(ops, name), getattr(F, name)))
    for name, make in {
        "conv2d": lambda f: lambda x: f(x, uniform(2, 2, 3, 1, 1)),
        "max_pool2d": lambda f: lambda x: f(x, 2),
    }.items()
}


def test_repeated__strides_of_images_are_torchs() -> None:
    """Which of both orders an image has, if some of its dimensions are repeated."""
    every = [one for one in views((2, 3, 4, 5), torch.float32) if one[0].startswith(("order (0, ", "order (1, "))]
    assert sum(check(name, functions, [one]) for name, functions in IMAGES.items() for one in every) > 300
