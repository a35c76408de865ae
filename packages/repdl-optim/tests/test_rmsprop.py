"""RMSprop: bits of every option against the reference, and torch's up to its roundings."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from hypothesis import given, settings, strategies as st

import repdl
from repdl.optim import RMSprop
from repdl.optim.testing import parameters, set_grads, train
from repdl.testing.compare import assert_same_bits

OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": w, "momentum": m, "centered": c, "maximize": x}
    for w, m, c, x in product((0.0, 0.01), (0.0, 0.9), (False, True), (False, True))
]


def test_rmsprop__bits_of_the_reference() -> None:
    for options in OPTIONS:
        params, oracle = parameters(), parameters()
        optimizer = RMSprop(params, lr=0.1, alpha=0.9, **options)
        state = {"square_avg": True, "grad_avg": options["centered"], "momentum_buffer": options["momentum"]}
        lists = {key: [torch.zeros_like(p) for p in oracle if there] for key, there in state.items()}
        for step in range(4):
            grads = set_grads(params, step)
            optimizer.step()
            with repdl.use_backend("reference"):
                repdl.ops.rmsprop_step(oracle, grads, *lists.values(), lr=0.1, alpha=0.9, eps=1e-8, **options)
            assert_same_bits(params, oracle, f"{options}, step {step}")
            for key, tensors in lists.items():
                assert_same_bits([optimizer.state[p][key] for p in params if tensors], tensors, f"{options}, {key}")
            assert all(optimizer.state[p]["step"] == step + 1 for p in params)


def test_rmsprop__close_to_torch() -> None:
    # Gradients are multiples of 2**-23 below 1 and eps is large: the root is at least 1/2. A step then moves an
    # element by lr * q with |q| < 2, made of at most 12 roundings in either code, of which the difference v - a * a
    # cancels 3 bits; momentum 0.5 adds up to 2 of them. 10 steps.
    for options in OPTIONS:
        options = {**options, "momentum": options["momentum"] and 0.5, "lr": 0.01, "eps": 0.5}
        params, other = parameters(), parameters()
        train(RMSprop(params, **options), params, range(10))
        train(torch.optim.RMSprop(other, foreach=False, **options), other, range(10))
        for a, b in zip(params, other):
            assert torch.allclose(a, b, rtol=0, atol=10 * (0.01 * 2 * 2 * 2 * 12 * 8 + 2 * 4) * 2.0**-24), options


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), min_size=1, max_size=5),
    st.tuples(*[st.floats(0, 1)] * 5),
    st.booleans(),
)
def test_rmsprop__any_shape_and_value(
    shapes: list[tuple[int, ...]], numbers: tuple[float, ...], centered: bool
) -> None:
    results = []
    for backend in ("cpu", "reference") if "cpu" in repdl.backends() else ("reference",):
        params = parameters(shapes)
        with repdl.use_backend(backend):
            train(RMSprop(params, *numbers, centered), params, range(3))
        results.append(params)
    assert_same_bits(results[0], results[-1])
