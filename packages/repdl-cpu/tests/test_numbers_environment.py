"""Numbers, options and constants of derivatives give the same bits in any floating-point environment."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import repdl
from repdl.testing import assert_same_bits, uniform
from repdl.testing.environment import DIRECTIONS, can_flush, flush_denormal, rounding

ops = repdl.ops
X, Y = uniform(1, 6, 5, scale=4.0), uniform(2, 6, 5, scale=4.0)
TINY, TINY_NUMPY = torch.tensor(1e-40), np.float32(1e-40)
TARGET, WEIGHT = torch.tensor([0, 4, 2, 1, 3, 2]), uniform(3, 5).abs()
PROBABILITIES = uniform(4, 6, 5).abs()

FORWARD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mul": lambda x: ops.mul(x, 0.1),
    "mul subnormal": lambda x: ops.mul(torch.ones_like(x), 1e-40),
    "mul subnormal numpy": lambda x: ops.mul(torch.ones_like(x), TINY_NUMPY),
    "mul integer": lambda x: ops.mul(x, 2**24 + 1),
    "mul large": lambda x: ops.mul(x, 2**62 + 2**38 + 1),
    "mul fraction": lambda x: ops.mul(x, Fraction(1, 3)),
    "mul decimal": lambda x: ops.mul(x, Decimal("0.1")),
    "mul bfloat16": lambda x: ops.mul(ops.cast(x, torch.bfloat16), 0.1),
    "mul float16": lambda x: ops.mul(ops.cast(x, torch.float16), 1e-6),
    "mul float64": lambda x: ops.mul(ops.cast(x, torch.float64), 2**62 + 1),
    "from the left": lambda x: ops.div(0.3, x),
    "add": lambda x: ops.add(x, 0.1),
    "add alpha": lambda x: ops.add(x, Y, alpha=0.1),
    "add alpha tensor": lambda x: ops.add(x, Y, alpha=TINY),
    "add alpha half": lambda x: ops.add(ops.cast(x, torch.float16), ops.cast(Y, torch.float16), alpha=0.1),
    "sub alpha": lambda x: ops.sub(x, Y, alpha=1 / 3),
    "addmm": lambda x: ops.addmm(x, Y, uniform(5, 5, 5), beta=0.1, alpha=0.7),
    "addmm tensor": lambda x: ops.addmm(x, Y, uniform(5, 5, 5), beta=TINY, alpha=0.7),
    "mean": lambda x: ops.mean(x),
    "pow": lambda x: ops.pow(ops.abs(x), 0.1),
    "pad": lambda x: ops.pad(x, (1, 2), value=1e-40),
    "pad rounded": lambda x: ops.pad(x, (1, -2), value=0.1),
    "smoothing": lambda x: ops.cross_entropy(x, TARGET, label_smoothing=0.1),
    "smoothing weight": lambda x: ops.cross_entropy(x, TARGET, WEIGHT, label_smoothing=0.3, reduction="sum"),
    "smoothing probabilities": lambda x: ops.cross_entropy(x, PROBABILITIES, label_smoothing=0.1),
    "probabilities": lambda x: ops.cross_entropy(x, PROBABILITIES),
    "batch_norm": lambda x: ops.batch_norm(x, None, None, training=True, eps=1e-3),
    "layer_norm": lambda x: ops.layer_norm(x, (5,), eps=1e-3),
    "gelu tanh": lambda x: ops.gelu(x, "tanh"),
    "alpha_dropout": lambda x: ops.alpha_dropout(x.double(), 0.3, True, generator=repdl.random.Generator(1)),
    "uniform": lambda x: repdl.random.uniform_(x.clone(), -0.1, 0.7, generator=repdl.random.Generator(1)),
    "normal": lambda x: repdl.random.normal_(x.clone(), 0.1, 0.3, generator=repdl.random.Generator(1)),
    "cauchy": lambda x: repdl.random.cauchy_(x.clone(), 0.1, 0.3, generator=repdl.random.Generator(1)),
    "multinomial": lambda x: repdl.random.multinomial(ops.abs(x), 3, generator=repdl.random.Generator(1)),
    "attention": lambda x: ops.scaled_dot_product_attention(x, Y, Y, scale=0.3),
    "attention scale": lambda x: ops.scaled_dot_product_attention(x, Y, Y),
    "avg_pool": lambda x: ops.avg_pool2d(x.view(1, 6, 5), (2, 5), divisor_override=7),
}
"""Calls with a number in them."""

DERIVATIVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{name: getattr(ops, name) for name in ("erf", "exp2", "expm1", "sigmoid", "sin", "tanh", "gelu", "silu")},
    **{
        name: (lambda x, name=name: getattr(ops, name)(ops.abs(x)))
        for name in ("log10", "log1p", "log2", "rsqrt", "sqrt")
    },
    "gelu tanh": lambda x: ops.gelu(x, "tanh"),
    "pow": lambda x: ops.pow(ops.abs(x), 1.1),
    "pow small": lambda x: ops.pow(ops.abs(x), 1e-3),
    **{name: FORWARD[name] for name in ("add alpha", "addmm", "mean", "smoothing probabilities")},
}
"""Those whose derivatives have constants."""


def _results() -> dict[str, Any]:
    """The bits of every call, its gradient and, where there is one, its second derivative."""
    results: dict[str, Any] = {}
    for name, call in FORWARD.items():
        results[name] = call(X)
    for name, call in DERIVATIVES.items():
        x = X.clone().requires_grad_()
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        results[f"{name} derivative"] = first.detach()
        if "lu" in name:  # of the others torch's engine adds up several terms, in the thread's environment
            results[f"{name} second derivative"] = torch.autograd.grad(first.sum(), x)
    for step in (1, 3, 1000):
        param = torch.nn.Parameter(X.clone())
        param.grad = Y.clone()
        optimizer = repdl.optim.Adam([param], lr=torch.tensor(0.1, dtype=torch.float64), weight_decay=1e-3)
        optimizer.step()
        optimizer.state[param]["step"].fill_(step)
        optimizer.step()
        results[f"Adam {step}"] = param.detach()
    return results


ENVIRONMENTS: dict[str, Callable[[], Any]] = {name: partial(rounding, name) for name in DIRECTIONS}
if can_flush():
    ENVIRONMENTS["flush"] = flush_denormal


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_numbers__same_bits(environment: str) -> None:
    expected = _results()
    with ENVIRONMENTS[environment]():
        actual = _results()
    for name, value in expected.items():
        assert_same_bits(actual[name], value, f"{name}, {environment}")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_numbers__the_environment_can_be_seen(environment: str) -> None:
    before = torch.tensor([0.1, -0.1, 1e-40], dtype=torch.float64).float().view(torch.int32)
    with ENVIRONMENTS[environment]():
        after = torch.tensor([0.1, -0.1, 1e-40], dtype=torch.float64).float().view(torch.int32)
    assert not torch.equal(before, after)


@pytest.mark.skipif(not can_flush(), reason="this processor cannot flush subnormals")
def test_numbers__a_number_is_not_flushed() -> None:
    with flush_denormal():
        result = ops.mul(torch.ones(3), 1e-40)
    assert result.view(torch.int32).tolist() == [0x000116C2] * 3
