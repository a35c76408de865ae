"""Calls of convolutions, pooling and interpolation with random options: strides, dilations, paddings and sizes that
golden cases, which have one or two of them at a time, do not combine."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import torch

from repdl.errors import UnsupportedError
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing.inputs import uniform
from repdl.testing.run import ODD_CONTRACTS

Call = tuple[str, tuple[Any, ...]]
"""An op and its arguments."""
CONTRACTS = ("v1", "sequential", *ODD_CONTRACTS)


def window_calls(seed: int) -> Iterator[Call]:
    """A convolution, its derivatives, and a pooling and an interpolation with theirs."""
    choose = random.Random(seed)
    yield from _convolutions(choose)
    yield from _poolings(choose)
    yield from _interpolations(choose)


def _sides(choose: random.Random, most_padding: float) -> dict[str, list[int]]:
    """Options of both sides; every window has elements of the input or its padding."""
    long = choose.randrange(3) if choose.random() < 0.2 else 2  # 0 or 1: that side has a long kernel
    kernel = [choose.randint(9, 60) if d == long else choose.choice([1, 1, 2, 3, 3, 4, 5]) for d in (0, 1)]
    options = {
        "kernel": kernel,
        "stride": [choose.choice([1, 1, 2, 3, 4]) for _ in kernel],
        "padding": [choose.randint(0, int(k * most_padding)) for k in kernel],
        "dilation": [choose.choice([1, 1, 2, 3]) for _ in kernel],
    }
    spans = zip(kernel, options["padding"], options["dilation"])
    least = [max(d * (k - 1) + 1 - 2 * p, 1) for k, p, d in spans]
    options["size"] = [n + choose.choice([0, 1, 2, 5, 9]) for n in least]
    return options


def _images(choose: random.Random, *shape: int) -> torch.Tensor:
    x = uniform(choose.randrange(9), *shape, special=choose.random() < 0.2)
    if choose.random() < 0.2:
        x = torch.full_like(x, choose.choice([-torch.inf, -0.0, 1e-30]))
    if choose.random() < 0.3:
        x = x.contiguous(memory_format=torch.channels_last)
    return x if choose.random() < 0.8 else x.double()


def _convolutions(choose: random.Random) -> Iterator[Call]:
    sides = _sides(choose, 1.0)
    groups, each, made = choose.choice([1, 1, 1, 2, 5]), choose.choice([1, 1, 3, 17]), choose.choice([1, 2, 9])
    if each * made > 40:
        made = 1
    input = _images(choose, choose.choice([1, 1, 2, 5]), groups * each, *sides["size"])
    weight = uniform(choose.randrange(9), groups * made, each, *sides["kernel"]).to(input.dtype)
    bias = uniform(3, groups * made).to(input.dtype) if choose.random() < 0.5 else None
    options = sides["stride"], sides["padding"], sides["dilation"], groups, choose.choice(CONTRACTS)
    yield "conv2d", (input, weight, bias, *options)
    output = OPS["conv2d"].fake(input, weight, bias, *options)
    grad = uniform(choose.randrange(9), *output.shape).to(input.dtype)
    if choose.random() < 0.3:
        grad = grad.contiguous(memory_format=torch.channels_last)
    yield "conv2d_grad_input", (grad, weight, sides["size"], *options)
    yield "conv2d_grad_weight", (grad, input, sides["kernel"], *options)


def _poolings(choose: random.Random) -> Iterator[Call]:
    sides = _sides(choose, 0.5)
    input = _images(choose, choose.choice([1, 2]), choose.choice([1, 3, 17]), *sides["size"])
    ceil_mode = choose.random() < 0.5
    args = input, sides["kernel"], sides["stride"], sides["padding"], sides["dilation"], ceil_mode
    try:
        OPS["max_pool2d"].check(*args)
    except UnsupportedError:  # a window that has no element of the input
        return
    yield "max_pool2d", args
    output, indices = implementations(get_backend("reference"))["max_pool2d"](*args)
    grad = uniform(choose.randrange(9), *output.shape).to(input.dtype)
    yield "max_pool2d_backward", (grad, indices, sides["size"])


def _interpolations(choose: random.Random) -> Iterator[Call]:
    """To other sizes, to twice the size or nearly, to a single element; with positions as torch's modes have them."""
    sizes = [choose.choice([1, 2, 3, 4, 5, 8, 17, 40]) for _ in range(choose.choice([1, 2, 2, 3]))]
    made = [
        max(1, choose.choice([n, 2 * n, 2 * n - 1, 2 * n + 1, n // 2, 3 * n, choose.randint(1, 20)])) for n in sizes
    ]
    shape = choose.choice([1, 2]), choose.choice([1, 3, 17])
    small, large = (uniform(choose.randrange(9), *shape, *s, special=choose.random() < 0.2) for s in (sizes, made))
    if len(sizes) == 2 and choose.random() < 0.3:
        small, large = (x.contiguous(memory_format=torch.channels_last) for x in (small, large))
    half = choose.choice([0.0, 0.5])
    nearest = [int((i + half) * n / m) for n, m in zip(sizes, made) for i in range(m)]
    yield "nearest", (small, nearest, made, choose.choice(CONTRACTS))
    yield "nearest_backward", (large, nearest, sizes, choose.choice(CONTRACTS))
    taps = choose.choice([1, 2, 4])
    at = [min(int(i * n / m) + t, n - 1) for n, m in zip(sizes, made) for i in range(m) for t in range(taps)]
    weights = [_bits_of(choose.uniform(-1, 2)) for _ in at]
    sides = list(range(len(sizes)))
    yield "resample", (small, at, weights, sides, made, choose.choice(CONTRACTS))
    yield "resample_backward", (large, at, weights, sides, sizes, choose.choice(CONTRACTS))


def _bits_of(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


__all__ = ["window_calls"]
