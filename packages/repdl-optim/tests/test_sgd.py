"""SGD: bits of every option against the reference, and what momentum and gradients with graphs ask for."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

import repdl
from repdl.optim import SGD
from repdl.optim.testing import parameters, set_grads, train
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": w, "momentum": m, "dampening": d, "nesterov": n, "maximize": x}
    for w, (m, d, n), x in product(
        (0.0, 0.01),
        ((0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.5, False), (0.9, 0.0, True)),
        (False, True),
    )
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sgd__bits_of_the_reference(options: dict[str, Any]) -> None:
    params, oracle, buffers = parameters(), parameters(), None
    optimizer = SGD(params, lr=0.1, **options)
    for step in range(4):
        grads = set_grads(params, step)
        optimizer.step()
        first = buffers is None
        if options["momentum"] and buffers is None:
            buffers = [torch.full_like(p, float("nan")) for p in oracle]
        with repdl.use_backend("reference"):
            repdl.ops.sgd_step(oracle, grads, buffers or [], lr=0.1, first=first, **options)
        assert_same_bits(params, oracle, f"step {step}")
        if buffers is not None:
            assert_same_bits([optimizer.state[p]["momentum_buffer"] for p in params], buffers, "buffers")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sgd__close_to_torch(options: dict[str, Any]) -> None:
    # Both round each of at most 5 operations a step, of values that stay below 16, by half
    # an ulp, 2**-21 there; 10 steps, and momentum 0.9 adds up to 10 of the errors.
    params, other = parameters(), parameters()
    train(SGD(params, lr=0.1, **options), params, range(10))
    train(torch.optim.SGD(other, lr=0.1, foreach=False, **options), other, range(10))
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=5 * 10 * 10 * 0.1 * 2.0**-21)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), min_size=1, max_size=5),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_sgd__any_shape_and_value(
    shapes: list[tuple[int, ...]], lr: float, momentum: float, dampening: float, weight_decay: float
) -> None:
    results = []
    for backend in ("cpu", "reference") if "cpu" in repdl.backends() else ("reference",):
        params = parameters(shapes)
        with repdl.use_backend(backend):
            train(SGD(params, lr, momentum, dampening, weight_decay), params, range(3))
        results.append(params)
    assert_same_bits(results[0], results[-1])


def test_sgd__state_with_buffer_none() -> None:
    params, other = parameters(), parameters()
    optimizer, expected = SGD(params, lr=0.1, momentum=0.9), SGD(other, lr=0.1, momentum=0.9)
    saved = optimizer.state_dict()
    saved["state"] = {i: {"momentum_buffer": None} for i in range(len(params))}
    optimizer.load_state_dict(saved)
    train(optimizer, params, range(3))
    train(expected, other, range(3))
    assert_same_bits(params, other)


def test_sgd__momentum_switched_on_and_off() -> None:
    params, other = parameters(), parameters()
    optimizer, theirs = SGD(params, lr=0.1), torch.optim.SGD(other, lr=0.1)
    for step, momentum in enumerate([0.0, 0.9, 0.0, 0.9]):
        for group in (params, other):
            set_grads(group, step)
        optimizer.param_groups[0]["momentum"] = theirs.param_groups[0]["momentum"] = momentum
        optimizer.step()
        theirs.step()
    for a, b in zip(params, other):
        assert torch.allclose(a, b, rtol=0, atol=4 * 5 * 2.0**-22)  # 4 steps of 5 roundings, below 8


def test_sgd__fused_leaves_unscaling_to_the_scaler() -> None:
    params, other = parameters([(3,)]), parameters([(3,)])
    for group, options in ((params, {"fused": True}), (other, {})):
        optimizer = SGD(group, lr=0.1, **options)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale((group[0] * group[0]).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert_same_bits(params, other)
    assert not torch.equal(params[0], uniform(0, 3))


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
def test_sgd__gradient_with_a_graph() -> None:
    (weight,) = params = parameters([(4,)])
    (weight * weight * weight).sum().backward(create_graph=True)
    optimizer = SGD(params, lr=0.1, momentum=0.9)
    optimizer.step()
    assert not optimizer.state[weight]["momentum_buffer"].requires_grad
    weight.grad = None


def test_sgd__backward_notices_the_step() -> None:
    (weight,) = params = parameters([(4,)])
    loss = (weight * weight).sum()
    weight.grad = uniform(3, 4)
    SGD(params, lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
