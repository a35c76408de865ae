"""Cases of conv2d and its gradients: every option, k and images around the chunk, layouts."""

from __future__ import annotations

from typing import Any

import torch

from repdl.ops.conv._convolution import output_size
from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

# name: n, c, h, w, o, kh, kw, stride, padding, dilation, groups
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "plain": (2, 3, 7, 8, 5, 3, 3, (1, 1), (0, 0), (1, 1), 1),
    "pointwise": (2, 5, 6, 7, 4, 1, 1, (1, 1), (0, 0), (1, 1), 1),
    "pointwise_stride": (2, 5, 7, 9, 4, 1, 1, (2, 3), (0, 0), (1, 1), 1),
    "padding": (2, 3, 9, 20, 6, 5, 5, (1, 1), (2, 2), (1, 1), 1),
    "padding_uneven": (1, 2, 5, 6, 3, 3, 4, (1, 1), (2, 1), (1, 1), 1),
    "stride": (2, 2, 11, 12, 3, 3, 3, (2, 2), (1, 1), (1, 1), 1),
    "stride_uneven": (1, 2, 11, 13, 3, 3, 2, (3, 2), (0, 1), (1, 1), 1),
    "stride_past_kernel": (1, 2, 10, 10, 3, 2, 2, (3, 3), (0, 0), (1, 1), 1),
    "dilation": (1, 2, 9, 10, 3, 3, 3, (1, 1), (2, 2), (2, 3), 1),
    "dilation_stride": (1, 2, 12, 11, 3, 3, 3, (2, 2), (2, 2), (2, 2), 1),
    "groups": (2, 4, 6, 6, 6, 3, 3, (1, 1), (1, 1), (1, 1), 2),
    "depthwise": (2, 5, 8, 7, 5, 3, 3, (1, 1), (1, 1), (1, 1), 5),
    "depthwise_stride": (1, 4, 9, 9, 8, 3, 3, (2, 2), (1, 1), (1, 1), 4),
    "k_over_chunk": (1, 30, 5, 5, 3, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "many_outputs": (1, 2, 6, 6, 40, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "images_across_chunks": (4, 1, 12, 10, 2, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "short_runs": (5, 1, 14, 15, 6, 5, 5, (1, 1), (2, 2), (1, 1), 1),
    "short_runs_stride": (3, 2, 15, 17, 13, 4, 3, (2, 1), (1, 1), (1, 1), 1),
    "short_runs_dilation": (3, 3, 12, 13, 5, 2, 3, (1, 2), (0, 1), (1, 2), 1),
    "short_runs_groups": (2, 4, 9, 14, 16, 3, 3, (1, 1), (1, 1), (1, 1), 4),
    "columns_13": (1, 2, 3, 13, 40, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    "columns_31": (1, 1, 4, 32, 2, 2, 2, (1, 1), (0, 0), (1, 1), 1),
    "channels_130": (1, 130, 4, 4, 20, 3, 3, (1, 1), (0, 0), (1, 1), 1),
    "channels_256": (1, 256, 3, 4, 3, 2, 2, (1, 1), (0, 0), (1, 1), 1),
    "dilation_groups": (1, 4, 8, 7, 4, 3, 3, (1, 1), (0, 0), (2, 1), 2),
    "pointwise_every_other": (1, 1, 31, 31, 1, 1, 1, (2, 2), (0, 0), (1, 1), 1),
    "depthwise_20": (1, 20, 5, 4, 20, 2, 2, (1, 1), (0, 0), (1, 1), 20),
    "one_output": (1, 1, 3, 3, 1, 3, 3, (1, 1), (0, 0), (1, 1), 1),
    "batch_0": (0, 2, 5, 5, 3, 3, 3, (1, 1), (0, 0), (1, 1), 1),
}

DTYPES = {
    "plain": EVERY,
    **dict.fromkeys(("padding_uneven", "groups", "depthwise_stride", "k_over_chunk"), DOUBLE),
}
"""Those of some geometries."""


def _shapes(geometry: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[Any, ...]]:
    n, c, h, w, o, kh, kw, stride, padding, dilation, groups = geometry
    out = (
        output_size(h, kh, stride[0], padding[0], dilation[0]),
        output_size(w, kw, stride[1], padding[1], dilation[1]),
    )
    options = (list(stride), list(padding), list(dilation), groups)
    return (n, c, h, w), (o, c // groups, kh, kw), (n, o, *out), options


def _forward(name: str, **kind: Any) -> tuple[Any, ...]:
    input, weight, _, options = _shapes(GEOMETRIES[name])
    bias = None if name == "plain" else uniform(3, weight[0], **kind)
    return (uniform(1, *input, **kind), uniform(2, *weight, **kind), bias, *options)


def _grad_input(name: str, **kind: Any) -> tuple[Any, ...]:
    input, weight, grad, options = _shapes(GEOMETRIES[name])
    return (uniform(1, *grad, **kind), uniform(2, *weight, **kind), list(input[2:]), *options)


def _grad_weight(name: str, **kind: Any) -> tuple[Any, ...]:
    input, weight, grad, options = _shapes(GEOMETRIES[name])
    return (uniform(1, *grad, **kind), uniform(2, *input, **kind), list(weight[2:]), *options)


_OPS = {"conv2d": _forward, "conv2d_grad_input": _grad_input, "conv2d_grad_weight": _grad_weight}


def _channels_last(op: str) -> tuple[Any, ...]:
    a, b, *rest = _OPS[op]("padding")
    return (a.contiguous(memory_format=torch.channels_last), b.transpose(2, 3).contiguous().transpose(2, 3), *rest)


def _subnormal_operand(op: str) -> tuple[Any, ...]:
    a, b, *rest = _OPS[op]("plain")
    return (a * 2.0**-130, b * 2.0**10, *rest)


def _infinity(op: str, name: str) -> tuple[Any, ...]:
    # Every output has a term inf and a term -inf: a NaN with a sign, as processors make it.
    a, b, *rest = _OPS[op](name)
    b = torch.where(uniform(7, *b.shape) < 0, float("-inf"), float("inf"))
    return (a.abs() + 1, b, *rest)


def _expanded(op: str) -> tuple[Any, ...]:
    a, b, *rest = _OPS[op]("groups")
    return (a[:1].expand_as(a), b, *rest)


CASES = [
    *(
        Case(op, name, lambda op=op, name=name: _OPS[op](name), dtypes=DTYPES.get(name, ()))
        for op in _OPS
        for name in GEOMETRIES
    ),
    *(Case(op, "special", lambda op=op: _OPS[op]("stride", special=True), dtypes=EVERY) for op in _OPS),
    *(Case(op, "subnormal", lambda op=op: _OPS[op]("padding_uneven", scale=2.0**-72), dtypes=DOUBLE) for op in _OPS),
    *(Case(op, "subnormal_operand", lambda op=op: _subnormal_operand(op)) for op in _OPS),
    *(Case(op, "channels_last", lambda op=op: _channels_last(op)) for op in _OPS),
    *(Case(op, "expanded", lambda op=op: _expanded(op), dtypes=DOUBLE) for op in _OPS),
    *(
        Case(op, f"infinity_{name}", lambda op=op, name=name: _infinity(op, name))
        for op in _OPS
        for name in ("columns_13", "columns_31", "pointwise", "depthwise_20", "short_runs_groups")
    ),
    # Padding is a term: 0 * inf is NaN, a skipped tap would be finite.
    Case(
        "conv2d",
        "padding_times_infinity",
        lambda: (torch.ones(1, 1, 2, 2), torch.full((1, 1, 3, 3), float("inf")), None, [1, 1], [1, 1], [1, 1], 1),
    ),
    # Products underflow to -0 and a padded +0 term turns the chain to +0.
    Case(
        "conv2d",
        "underflow_sign",
        lambda: (
            torch.full((1, 1, 3, 3), 2.0**-75),
            torch.full((1, 1, 2, 2), -(2.0**-76)),
            None,
            [1, 1],
            [1, 1],
            [1, 1],
            1,
        ),
    ),
]
