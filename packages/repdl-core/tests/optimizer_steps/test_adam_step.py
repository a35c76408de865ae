"""What is particular to adam_step: Adam in float64, and forbidden rewrites."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import uniform
from repdl.testing.oracle import U, assert_within

B1, B2, EPS = 0.9, 0.999, 1e-8


def corrections(step: int) -> dict[str, float]:
    return {"bias_correction1": 1 - B1**step, "bias_correction2": 1 - B2**step}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shapes=st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=3),
    steps=st.integers(1, 3),
    weight_decay=st.sampled_from([0.0, 0.1]),
    amsgrad=st.booleans(),
    maximize=st.booleans(),
    decoupled=st.booleans(),
    lr=st.sampled_from([0.0, 0.01, 0.5]),
)
def test_adam_step__agrees_with_torch(
    shapes: list[list[int]], steps: int, weight_decay: float, amsgrad: bool, maximize: bool, decoupled: bool, lr: float
) -> None:
    params = [uniform(i, *s) for i, s in enumerate(shapes)]
    state = [[torch.zeros_like(p) for p in params] for _ in range(3)]
    state[2] = state[2] if amsgrad else []
    exact = [p.double().requires_grad_() for p in params]
    options: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize}
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind(exact, betas=(B1, B2), eps=EPS, **options)
    for step in range(1, steps + 1):
        # Away from 0 and of one sign, so that m / d is not the quotient of two small numbers.
        grads = [uniform(10 * step + i, *s).abs() + 2 for i, s in enumerate(shapes)]
        ops.adam_step(
            params,
            grads,
            *state,
            beta1=B1,
            beta2=B2,
            eps=EPS,
            decoupled_weight_decay=decoupled,
            **corrections(step),
            **options,
        )
        for p, g in zip(exact, grads):
            p.grad = g.double()
        optimizer.step()
    # f32(beta2) is off by U / 2, which is 500 * U of 1 - beta2; m and v are below 4 and 16, m / d below
    # 3, p below 4. Each step adds at most 12 roundings and that of the hyperparameters.
    for p, e in zip(params, exact):
        assert_within(p, e.detach(), steps * (12 + 500) * U * 4, "params")
    for name, tensors in zip(("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), state):
        for t, e in zip(tensors, exact):
            assert_within(t, optimizer.state[e][name], steps * 12 * U * 16, name)


def test_adam_step__forbidden_rewrite_square_in_a_fused_multiply_add() -> None:
    # g * g rounds to 1 + 2**-11 before it is scaled and added.
    g, v = torch.tensor([1 + 2.0**-12]), [torch.tensor([-(1 + 2.0**-11)])]
    ops.adam_step(
        [torch.ones(1)],
        [g],
        [torch.zeros(1)],
        v,
        lr=0.1,
        beta1=0.5,
        beta2=0.5,
        eps=1.0,
        bias_correction1=1.0,
        bias_correction2=1.0,
    )
    assert v[0].item() == 0


def test_adam_step__forbidden_rewrite_eps_inside_the_root() -> None:
    # d = sqrt(v) + eps, not sqrt(v + eps): with v = 0, d is eps.
    p, m = [torch.zeros(1)], [torch.tensor([2.0**-10])]
    ops.adam_step(
        p,
        [torch.zeros(1)],
        m,
        [torch.zeros(1)],
        lr=1.0,
        beta1=0.5,
        beta2=0.5,
        eps=2.0**-11,
        bias_correction1=1.0,
        bias_correction2=1.0,
    )
    assert p[0].item() == -1
