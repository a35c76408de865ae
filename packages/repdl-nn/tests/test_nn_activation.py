"""ReLU, Softmax and LogSoftmax against torch."""

from __future__ import annotations

import pytest
import torch

import repdl
from repdl import nn

# exp and log are correctly rounded; a sum of at most 8 terms of at most e, a division or a
# subtraction: fewer than 16 roundings of values of at most 24.
TOLERANCE = 16 * 24 * 2.0**-24


def test_relu__is_exact(compare, uniform):
    compare(nn.ReLU(), torch.nn.ReLU(), uniform(4, 5), tolerance=0.0)


def test_relu__inplace(uniform):
    x = uniform(4, 5)
    expected = torch.relu(x)
    assert nn.ReLU(inplace=True)(x) is x and torch.equal(x, expected)


def test_relu__inplace_gradient(uniform):
    x, y = uniform(4, 5).requires_grad_(), uniform(4, 5)
    (nn.ReLU(inplace=True)(x * 2) * y).sum().backward()
    assert torch.equal(x.grad, torch.where(x > 0, 2 * y, 0.0))


def test_hardswish__layer(compare, uniform):
    # Four roundings of numbers below 9.
    compare(nn.Hardswish(), torch.nn.Hardswish(), uniform(4, 5) * 4, tolerance=4 * 9 * 2.0**-24)
    x = uniform(4, 5)
    expected = nn.functional.hardswish(x)
    assert nn.Hardswish(inplace=True)(x) is x and torch.equal(x, expected)
    assert type(repdl.from_torch_module(torch.nn.Hardswish())) is nn.Hardswish


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("shape", "dim"), [((4, 5), 1), ((4, 5), 0), ((2, 3, 8), -1), ((2, 8, 3), 1), ((8,), 0)])
def test_softmax__dims(name, shape, dim, compare, uniform):
    compare(getattr(nn, name)(dim), getattr(torch.nn, name)(dim), uniform(*shape), tolerance=TOLERANCE)


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(8,), (3, 5), (3, 4, 2), (2, 3, 2, 2)])
def test_softmax__implicit_dim(name, shape, compare, uniform):
    compare(getattr(nn, name)(), getattr(torch.nn, name)(), uniform(*shape), tolerance=TOLERANCE)


def test_softmax__large_logits_do_not_overflow():
    assert torch.equal(nn.Softmax(0)(torch.tensor([1e30, 1e30])), torch.tensor([0.5, 0.5]))
