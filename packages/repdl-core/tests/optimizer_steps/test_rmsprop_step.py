"""What is particular to rmsprop_step: torch's RMSprop in float64, op by op, and forbidden rewrites."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_within

ALPHA, EPS = 0.75, 0.125


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shapes=st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=3),
    steps=st.integers(1, 3),
    weight_decay=st.sampled_from([0.0, 0.125]),
    momentum=st.sampled_from([0.0, 0.5]),
    centered=st.booleans(),
    maximize=st.booleans(),
    lr=st.sampled_from([0.0, 0.0625]),
)
def test_rmsprop_step__agrees_with_torch(
    shapes: list[list[int]],
    steps: int,
    weight_decay: float,
    momentum: float,
    centered: bool,
    maximize: bool,
    lr: float,
) -> None:
    params = [uniform(i, *s) for i, s in enumerate(shapes)]
    state = {
        "square_avgs": [torch.zeros_like(p) for p in params],
        "grad_avgs": [torch.zeros_like(p) for p in params if centered],
        "momentum_buffers": [torch.zeros_like(p) for p in params if momentum],
    }
    exact = [p.double().requires_grad_() for p in params]
    options: dict[str, Any] = {"lr": lr, "alpha": ALPHA, "eps": EPS, "weight_decay": weight_decay}
    options |= {"momentum": momentum, "centered": centered, "maximize": maximize}
    optimizer = torch.optim.RMSprop(exact, **options)
    for step in range(steps):
        # Away from 0 and of one sign, so that g / sqrt(v) is not the quotient of two small numbers.
        grads = [uniform(10 * step + i, *s).abs() + 2 for i, s in enumerate(shapes)]
        ops.rmsprop_step(params, grads, *state.values(), **options)
        for p, g in zip(exact, grads):
            p.grad = g.double()
        optimizer.step()
    # All options are floats; |g| is between 1.5 and 3.5, v between 0.5 and 13, v - a * a at least 0.4 (it is
    # alpha - alpha**2 of g * g after a step, and grows), and its root's relative error at most 13 / 0.4 times
    # 8 roundings a step; then q, below 6, b, below 12, and p, below 4.
    bound = steps * 8 * (13 / 0.4 + 4) * U * 12
    for p, e in zip(params, exact):
        assert_within(p, e.detach(), bound, "params")
    for name, tensors in state.items():
        for t, e in zip(tensors, exact):
            assert_within(t, optimizer.state[e][name[:-1]], bound, name)


def test_rmsprop_step__op_by_op() -> None:
    """torch's RMSprop, written with RepDL's ops, gives the bits of the step."""
    lr, eps, decay = 0.1, 1e-8, 0.01
    for alpha, momentum, centered in product((0.99, 0.5), (0.0, 0.9), (False, True)):
        p, g, b = uniform(1, 500), uniform(2, 500), uniform(5, 500)
        v, a = uniform(3, 500).abs(), uniform(4, 500) / 16
        q, w, c, d = p.clone(), v.clone(), a.clone(), b.clone()
        ops.rmsprop_step(
            [q], [g], [w], [c] if centered else [], [d] if momentum else [],
            lr=lr, alpha=alpha, eps=eps, weight_decay=decay, momentum=momentum, centered=centered,
        )  # fmt: skip
        g = ops.add(g, p, alpha=decay)
        square = ops.addcmul(ops.mul(v, alpha), g, g, value=1 - alpha)
        assert_same_bits(square, w)
        mean = ops.lerp(a, g, 1 - alpha)
        assert_same_bits(mean if centered else a, c)
        variance = ops.addcmul(square, mean, mean, value=-1) if centered else square
        root = ops.add(ops.sqrt(variance), eps)
        if momentum:
            buffer = ops.addcdiv(ops.mul(b, momentum), g, root)
            assert_same_bits(buffer, d)
            assert_same_bits(ops.add(p, buffer, alpha=-lr), q)
        else:
            assert_same_bits(ops.addcdiv(p, g, root, value=-lr), q)


def one(p: float, g: float, v: float, a: float = 0.0, b: float = 0.0, **options: Any) -> list[float]:
    """Parameter and state after a step of one element; options are the plainest where they are not given."""
    lists = [[torch.tensor([x])] for x in (p, g, v, a, b)]
    options = {"lr": 1.0, "alpha": 0.5, "eps": 0.0, **options}
    used = lists[3] if options.get("centered") else [], lists[4] if options.get("momentum") else []
    ops.rmsprop_step(*lists[:3], *used, **options)
    return [x[0].item() for x in lists]


def test_rmsprop_step__forbidden_rewrites() -> None:
    # g * g rounds to 1 + 2**-11 before it is scaled and added: v is 0, not 2**-25.
    assert one(1.0, 1 + 2.0**-12, -(1 + 2.0**-11))[2] == 0
    # (g * g) * share overflows, (g * share) * g would not.
    assert one(1.0, 2.0**64, 0.0, alpha=1 - 2.0**-10)[2] == float("inf")
    # The weight decay is fused into the gradient: 2**-24, whose square is 2**-48; 0 if the product is rounded.
    assert one(1 + 2.0**-12, -(1 + 2.0**-11), 0.0, weight_decay=1 + 2.0**-12)[2] == 2.0**-49
    # eps is added to the root: with v = 0 the quotient is g / (sqrt(2**-21) + eps), not a root of a sum.
    assert one(0.0, 2.0**-10, 0.0, eps=2.0**-11, alpha=1.0)[0] == -2.0
    # Without momentum the product of q and -lr is rounded before it is added: 0, not -2**-24.
    lr = 1 + 2.0**-12
    assert one(1 + 2.0**-11, 1 + 2.0**-12, 1.0, alpha=1.0, lr=lr)[0] == 0
    # With it, p + b * -lr is one rounding.
    assert one(1 + 2.0**-11, 1 + 2.0**-12, 1.0, alpha=1.0, lr=lr, momentum=0.5)[0] == -(2.0**-24)
    # Centered, a is one fused multiply-add of the rounded a * alpha: in units of 2**-149, g / 2 + a / 2 = 1.5 + 1
    # is rounded once, to 2.
    assert one(1.0, 3 * 2.0**-149, 1.0, 2.0**-148, centered=True)[3] == 2 * 2.0**-149
    # a * a is rounded before it is taken from v: v - a * a is 0, whose root gives an infinite quotient.
    a = 1 + 2.0**-12
    assert one(0.0, 1.0, 1 + 2.0**-11, a, alpha=1.0, centered=True)[0] == -float("inf")
