"""What is particular to adam_step: Adam in float64, layouts, errors that change nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within

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


def lists() -> dict[str, Any]:
    names = ("params", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")
    return {name: [uniform(2 * i, 3).abs(), uniform(2 * i + 1, 2, 2).abs()] for i, name in enumerate(names)}


OPTIONS: dict[str, Any] = {"lr": 0.1, "beta1": B1, "beta2": B2, "eps": EPS, "amsgrad": True, **corrections(3)}


def test_adam_step__layout_does_not_change_the_bits() -> None:
    expected = lists()
    ops.adam_step(**expected, **OPTIONS)
    layouts = (
        lambda t: t.t().contiguous().t(),
        lambda t: torch.stack([t, t], -1)[..., 0],
        lambda t: torch.cat([t, t])[t.shape[0] :],
    )
    for shift in range(3):
        actual = {k: [layouts[(i + shift) % 3](t) for t in v] for i, (k, v) in enumerate(lists().items())}
        ops.adam_step(**actual, **OPTIONS)
        for name in actual:
            assert_same_bits(actual[name], expected[name], name)


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


CHANGES = {
    "shape": (lambda t: uniform(1, 4), ValueError, "shape"),
    "float64": (lambda t: t.double(), TypeError, "float64"),
    "float16": (lambda t: t.half(), TypeError, "float16"),
    "device": (lambda t: t.to("meta"), ValueError, "meta"),
    "sparse": (lambda t: t.to_sparse(), NotImplementedError, "layout"),
    "broadcast": (lambda t: t[:1], ValueError, "shape"),
}


@pytest.mark.parametrize("which", list(lists()))
@pytest.mark.parametrize("change", CHANGES)
def test_adam_step__rejects_and_changes_nothing(which: str, change: str) -> None:
    args = lists()
    function, kind, words = CHANGES[change]
    args[which][1] = function(args[which][1])
    kept = [t for tensors in args.values() for t in tensors if t.layout is torch.strided and t.device.type == "cpu"]
    assert_rejected(lambda: ops.adam_step(**args, **OPTIONS), kind, "adam_step: ", words, tensors=kept)
    ops.adam_step(**lists(), **OPTIONS)


@pytest.mark.parametrize("which", list(lists()))
def test_adam_step__rejects_lists_and_shared_memory(which: str) -> None:
    args = lists()
    del args[which][1]
    kept = [t for tensors in args.values() for t in tensors]
    assert_rejected(lambda: ops.adam_step(**args, **OPTIONS), ValueError, "adam_step: ", "len", tensors=kept)
    if which != "grads":
        args = lists()
        args[which] = [args[which][0][:1].expand(3), args[which][1]]
        kept = [t for tensors in args.values() for t in tensors]
        assert_rejected(lambda: ops.adam_step(**args, **OPTIONS), ValueError, "adam_step: ", which, tensors=kept)
        args = lists()
        args[which][0] = args["grads"][0]
        kept = [t for tensors in args.values() for t in tensors]
        assert_rejected(lambda: ops.adam_step(**args, **OPTIONS), ValueError, "adam_step: ", "share", tensors=kept)
