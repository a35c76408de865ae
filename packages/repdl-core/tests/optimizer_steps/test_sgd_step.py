"""What is particular to sgd_step: torch's SGD in float64, and forbidden rewrites."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import uniform
from repdl.testing.oracle import assert_within, gamma


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shapes=st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
    steps=st.integers(1, 3),
    momentum=st.sampled_from([0.0, 0.5, 0.9]),
    dampening=st.sampled_from([0.0, 0.25]),
    nesterov=st.booleans(),
    weight_decay=st.sampled_from([0.0, 0.1]),
    maximize=st.booleans(),
    lr=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_sgd_step__agrees_with_torch(
    shapes: list[list[int]],
    steps: int,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
    maximize: bool,
    lr: float,
) -> None:
    if not momentum or nesterov:
        dampening = 0.0
    nesterov = nesterov and momentum > 0
    params = [uniform(i, *s) for i, s in enumerate(shapes)]
    buffers = [torch.full_like(p, torch.nan) for p in params] if momentum else []
    exact = [p.double().requires_grad_() for p in params]
    options: dict[str, Any] = {
        "lr": lr,
        "momentum": momentum,
        "dampening": dampening,
        "nesterov": nesterov,
        "weight_decay": weight_decay,
        "maximize": maximize,
    }
    optimizer = torch.optim.SGD(exact, **options) if exact else None
    for step in range(steps):
        grads = [uniform(10 * step + i, *s) for i, s in enumerate(shapes)]
        ops.sgd_step(params, grads, buffers, first=step == 0, **options)
        for p, g in zip(exact, grads):
            p.grad = g.double()
        if optimizer is not None:
            optimizer.step()
    # Numbers stay below 1 + 3 steps * 6; each step has 5 roundings and 4 of hyperparameters.
    for p, e in zip(params, exact):
        assert_within(p, e.detach(), gamma(9 * steps) * 60, "params")
    for b, e in zip(buffers, exact):
        assert_within(b, optimizer.state[e]["momentum_buffer"], gamma(9 * steps) * 60, "buffers")  # type: ignore[union-attr]


def test_sgd_step__forbidden_rewrite_rounded_product() -> None:
    # p - lr * g is one fused multiply-add: 2**-24, and 0 if the product is rounded.
    p = [torch.tensor([-(1 + 2.0**-11)])]
    ops.sgd_step(p, [torch.tensor([1 + 2.0**-12])], lr=-(1 + 2.0**-12))
    assert p[0].item() == 2.0**-24


def test_sgd_step__forbidden_rewrite_first_buffer_from_zero() -> None:
    # The first buffer is the gradient, not momentum * 0 + (1 - dampening) * gradient, nor what it held.
    b = [torch.tensor([torch.nan])]
    ops.sgd_step([torch.ones(1)], [torch.ones(1)], b, lr=0.1, momentum=0.9, dampening=0.5, first=True)
    assert b[0].item() == 1
