"""What is particular to sgd_step: torch's SGD in float64, layouts, errors that change nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected, assert_within, gamma


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


def test_sgd_step__layout_does_not_change_the_bits() -> None:
    p, g, b = uniform(1, 4, 6), uniform(2, 4, 6), uniform(3, 4, 6)
    expected = [p.clone()], [b.clone()]
    ops.sgd_step(expected[0], [g], expected[1], lr=0.1, momentum=0.9, weight_decay=0.1)
    layouts = (
        lambda t: t.t().contiguous().t(),
        lambda t: torch.stack([t, t], -1)[..., 0],
        lambda t: torch.cat([t, t])[4:],
    )
    for one in layouts:
        for two in layouts:
            params, buffers = [one(p)], [two(b)]
            ops.sgd_step(params, [two(one(g))], buffers, lr=0.1, momentum=0.9, weight_decay=0.1)
            assert_same_bits([*params, *buffers], [*expected[0], *expected[1]])
    params, row = [p.clone()], g[:1].expand(4, 6)
    ops.sgd_step(params, [row], lr=0.1)
    dense = [p.clone()]
    ops.sgd_step(dense, [row.contiguous()], lr=0.1)
    assert_same_bits(params, dense)


def test_sgd_step__parameters_that_require_grad_and_no_parameters() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    version = p._version
    with torch.no_grad():
        ops.sgd_step([p], [torch.ones(3)], lr=0.5)
    ops.sgd_step([], [], lr=0.5)
    assert p.tolist() == [0.5] * 3 and p.requires_grad and p._version > version


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


def lists() -> dict[str, Any]:
    return {
        "params": [uniform(1, 3), uniform(2, 2, 2)],
        "grads": [uniform(3, 3), uniform(4, 2, 2)],
        "momentum_buffers": [uniform(5, 3), uniform(6, 2, 2)],
    }


CHANGES = {
    "shape": (lambda t: uniform(1, 4), ValueError, "shape"),
    "float64": (lambda t: t.double(), TypeError, "float64"),
    "float16": (lambda t: t.half(), TypeError, "float16"),
    "device": (lambda t: t.to("meta"), ValueError, "meta"),
    "sparse": (lambda t: t.to_sparse(), NotImplementedError, "layout"),
    "broadcast": (lambda t: t[:1], ValueError, "shape"),
}


@pytest.mark.parametrize("which", ["params", "grads", "momentum_buffers"])
@pytest.mark.parametrize("change", CHANGES)
def test_sgd_step__rejects_and_changes_nothing(which: str, change: str) -> None:
    args = lists()
    function, kind, words = CHANGES[change]
    args[which][1] = function(args[which][1])
    kept = [t for tensors in args.values() for t in tensors if t.layout is torch.strided and t.device.type == "cpu"]
    assert_rejected(lambda: ops.sgd_step(**args, lr=0.1, momentum=0.9), kind, "sgd_step: ", words, tensors=kept)
    ops.sgd_step(**lists(), lr=0.1, momentum=0.9)


def test_sgd_step__rejects_lists_and_shared_memory() -> None:
    p, q, g = uniform(1, 3), uniform(2, 3), uniform(3, 3)
    long = uniform(4, 4)
    bad = [
        ([p, q], [g], [], 0.0),
        ([p], [g, g], [], 0.0),
        ([p], [g], [], 0.9),
        ([p], [g], [q], 0.0),
        ([p, p], [g, g], [], 0.0),
        ([p], [g], [p], 0.9),
        ([p], [p], [], 0.0),
        ([long[:3]], [long[1:]], [], 0.0),
        ([p[:1].expand(3)], [g], [], 0.0),
    ]
    for params, grads, buffers, momentum in bad:
        assert_rejected(
            lambda: ops.sgd_step(params, grads, buffers, lr=0.1, momentum=momentum),
            ValueError,
            "sgd_step: ",
            tensors=[*params, *grads, *buffers],
        )
