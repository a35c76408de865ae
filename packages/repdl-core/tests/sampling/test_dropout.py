"""dropout (dropout.md): the mask is recomputed, never stored; strides decide nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from repdl import ops
from repdl.errors import RepDLError
from repdl.registry import functions
from repdl.testing import assert_same_bits, bits, uniform
from repdl.testing.cases.sampling.random import like, position

dropout = functions.dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dropout__parts_are_the_whole(dtype: torch.dtype) -> None:
    seed, stream, offset = 3, 2**47, 2**34 - 9
    x = uniform(1, 20).to(dtype)
    whole = dropout(x, torch.tensor([seed, stream, offset]), 0.3)
    for first in (0, 1, 7, 10, 13):
        parts = [
            dropout(part, torch.tensor([seed, stream, offset + at]), 0.3)
            for at, part in ((0, x[:first]), (first, x[first:]))
        ]
        assert_same_bits(torch.cat(parts), whole)


def test_dropout__is_bernoulli() -> None:
    x = uniform(2, 500) + 3.0
    dropped = functions.bernoulli_scalar(like(500), position(), 0.25)
    assert torch.equal(dropout(x, position(), 0.25) == 0, dropped == 1)
    assert torch.equal(dropout(x, position(), 0.25)[dropped == 0], x[dropped == 0] * torch.tensor(1 / 0.75))
    assert_same_bits(dropout(x, position(), 0.0), x)
    assert torch.equal(dropout(x, position(), 1.0), torch.zeros(500))


def test_dropout__special_values() -> None:
    """Of one element: dropped and kept."""
    for value in (math.inf, -math.inf, math.nan, -2.0, -0.0, 2.0**-149):
        x = torch.full((64,), value)
        expected = torch.where(functions.bernoulli_scalar(like(64), position(), 0.5) == 1, x * 0.0, x * 2.0)
        expected = torch.where(expected.isnan(), math.nan, expected)
        assert_same_bits(dropout(x, position(), 0.5), expected)


def test_dropout__strides_decide_nothing() -> None:
    x = uniform(3, 4, 5, 6, 7)
    expected = bits(dropout(x, position(), 0.5))
    for order in ((0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 2, 3)):
        back = [order.index(d) for d in range(4)]
        strided = x.permute(order).contiguous().permute(back)
        result = dropout(strided, position(), 0.5)
        assert torch.equal(bits(result), expected) and result.stride() == strided.stride()
    expanded = x[:, :1].expand(4, 5, 6, 7)
    assert_same_bits(dropout(expanded, position(), 0.5), dropout(expanded.contiguous(), position(), 0.5))
    assert_same_bits(dropout(x[::2, 1:, :, ::3], position(), 0.5), dropout(x[::2, 1:, :, ::3].clone(), position(), 0.5))


def test_dropout__derivatives_are_the_op_again() -> None:
    x = uniform(4, 6, 7).requires_grad_()
    y = dropout(x, position(), 0.4)
    g = uniform(5, 6, 7).requires_grad_()
    (first,) = torch.autograd.grad(y, x, g, create_graph=True)
    assert_same_bits(first, dropout(g, position(), 0.4).detach())
    h = uniform(6, 6, 7)
    (second,) = torch.autograd.grad(first, g, h)
    assert_same_bits(second, dropout(h, position(), 0.4))
    assert torch.autograd.gradcheck(lambda t: dropout(t, position(), 0.4), uniform(7, 3, 4).double().requires_grad_())
    assert torch.autograd.gradgradcheck(
        lambda t: dropout(t, position(), 0.4), uniform(7, 3, 4).double().requires_grad_()
    )


def test_dropout__saves_no_mask() -> None:
    saved: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
        dropout(uniform(8, 1000).requires_grad_(), position(), 0.5)
    assert [t.numel() for t in saved] == [3], "the position alone"


def test_dropout__compiled_and_checkpointed() -> None:
    def model(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return ops.relu(dropout(ops.mul(x, x), at, 0.5))

    compiled: Callable[..., Any] = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (5, 12, 13):
        x = uniform(9, n).requires_grad_()
        runs = (model, compiled, lambda x, at: checkpoint(model, x, at, use_reentrant=False))
        results = []
        for run in runs:
            y = run(x, position())
            results.append([y, *torch.autograd.grad(y.sum(), x)])
        assert_same_bits(results[1], results[0])
        assert_same_bits(results[2], results[0])


def test_dropout__in_transforms() -> None:
    x = uniform(10, 3, 8)
    each = torch.stack([dropout(row, position(), 0.5) for row in x])
    assert_same_bits(torch.vmap(lambda row: dropout(row, position(), 0.5), randomness="same")(x), each)
    grad = torch.func.grad(lambda t: dropout(t, position(), 0.5).sum())(x)
    assert_same_bits(grad, dropout(torch.ones(3, 8), position(), 0.5))


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_dropout__errors(p: float) -> None:
    with pytest.raises(RepDLError, match="dropout: p is .*, expected a probability, 0 to 1"):
        dropout(torch.ones(3), position(), p)
    with pytest.raises(RepDLError, match="dropout: position.shape"):
        dropout(torch.ones(3), torch.zeros(4, dtype=torch.int64), 0.5)
