"""Adam: bits of every option against the reference, and what AdamW's state dicts ask for."""

from __future__ import annotations

import copy
from inspect import signature
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

import repdl
from repdl.optim import Adam
from repdl.optim.power import power
from repdl.optim.testing import parameters, set_grads, train
from repdl.testing.compare import assert_same_bits

OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": w, "decoupled_weight_decay": d, "amsgrad": a, "maximize": x}
    for (w, d), a, x in product(((0.0, False), (0.01, False), (0.01, True)), (False, True), (False, True))
]
DECOUPLES = "decoupled_weight_decay" in signature(torch.optim.Adam).parameters
needs_decoupling = pytest.mark.skipif(
    not DECOUPLES, reason="the state dicts of this torch do not say whether weight decay is decoupled"
)
KEYS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.5), (0.95, 0.0)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_adam__bits_of_the_reference(options: dict[str, Any], betas: tuple[float, float]) -> None:
    params, oracle = parameters(), parameters()
    optimizer = Adam(params, lr=0.1, betas=betas, **options)
    lists = [[torch.zeros_like(p) for p in oracle] for _ in KEYS[: 3 if options["amsgrad"] else 2]]
    for step in range(1, 5):
        grads = set_grads(params, step)
        optimizer.step()
        with repdl.use_backend("reference"):
            repdl.ops.adam_step(
                oracle,
                grads,
                *lists,
                lr=0.1,
                beta1=betas[0],
                beta2=betas[1],
                eps=1e-8,
                bias_correction1=1 - power(betas[0], step),
                bias_correction2=1 - power(betas[1], step),
                **options,
            )
        assert_same_bits(params, oracle, f"step {step}")
        for key, tensors in zip(KEYS, lists):
            assert_same_bits([optimizer.state[p][key] for p in params], tensors, key)
        assert all(optimizer.state[p]["step"] == step for p in params)


def torchs(params: list[torch.Tensor], decoupled_weight_decay: bool, **options: Any) -> torch.optim.Optimizer:
    """torch's Adam; where it does not decouple weight decay, its AdamW, which does."""
    if DECOUPLES:
        options["decoupled_weight_decay"] = decoupled_weight_decay
    return (torch.optim.AdamW if decoupled_weight_decay and not DECOUPLES else torch.optim.Adam)(params, **options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_adam__close_to_torch(options: dict[str, Any]) -> None:
    # A step moves an element by lr * m / d, |m / d| < 10 with these betas. m, v, d and the
    # quotient take fewer than 16 roundings of relative size 2**-24 each in either code, and
    # m may lose 4 bits to cancellation (gradients are multiples of 2**-23 and differ in sign),
    # which weight decay feeds back at 1 %. 10 steps.
    params, other = parameters(), parameters()
    train(Adam(params, lr=0.01, **options), params, range(10))
    train(torchs(other, lr=0.01, foreach=False, **options), other, range(10))
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=10 * 0.01 * 10 * 2 * 16 * 16 * 2.0**-24)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), min_size=1, max_size=5),
    st.floats(0, 1),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
)
def test_adam__any_shape_and_value(
    shapes: list[tuple[int, ...]],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    amsgrad: bool,
    decoupled: bool,
) -> None:
    results = []
    for backend in ("cpu", "reference") if "cpu" in repdl.backends() else ("reference",):
        params = parameters(shapes)
        optimizer = Adam(params, lr, (beta1, beta2), eps, decay, amsgrad, decoupled_weight_decay=decoupled)
        with repdl.use_backend(backend):
            train(optimizer, params, range(3))
        results.append(params)
    assert_same_bits(results[0], results[-1])


@needs_decoupling
def test_adam__state_dict_of_adamw() -> None:
    params, other = parameters(), parameters()
    theirs = torch.optim.AdamW(params, lr=0.1, weight_decay=0.5)
    train(theirs, params, range(2))
    with torch.no_grad():
        for a, b in zip(other, params):
            a.copy_(b)
    optimizer = Adam(other)
    optimizer.load_state_dict(copy.deepcopy(theirs.state_dict()))
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True
    train(optimizer, other, range(2, 3))
    train(theirs, params, range(2, 3))
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=0.1 * 10 * 32 * 2.0**-24)  # one step; see close_to_torch


def test_adam__tensors_as_hyperparameters() -> None:
    params, other = parameters(), parameters()
    lr, beta1, beta2 = torch.tensor(0.1), torch.tensor(0.9), torch.tensor(0.999)
    train(Adam(params, lr=lr, betas=(beta1, beta2)), params, range(3))
    train(Adam(other, lr=lr.item(), betas=(beta1.item(), beta2.item())), other, range(3))
    assert_same_bits(params, other)
