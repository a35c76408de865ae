"""AdaptiveLogSoftmaxWithLoss against torch: values, derivatives, parts, errors."""

from __future__ import annotations

import copy

import pytest
import torch

import repdl
from repdl import nn
from repdl.errors import OutOfRangeError, ShapeError

# Log-probabilities below 8 of at most 8 features and 6 classes, twice, and sums of 12 rows.
TOLERANCE = 12 * 32 * 8 * 2.0**-24


def test_adaptive__against_torch(uniform):
    torch.manual_seed(0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 7], div_value=2.0, head_bias=True)
    ours = repdl.from_torch_module(theirs)
    assert type(ours) is nn.AdaptiveLogSoftmaxWithLoss
    exact = copy.deepcopy(theirs).double()
    x, target = uniform(12, 8), torch.tensor([0, 11, 5, 3, 4, 7, 9, 6, 1, 2, 8, 10])
    a, b = x.clone().requires_grad_(), x.double().requires_grad_()
    found, expected = ours(a, target), exact(b, target)
    found.loss.backward()
    expected.loss.backward()
    pairs = [(found.output, expected.output), (found.loss, expected.loss), (a.grad, b.grad)]
    pairs += [(p.grad, q.grad) for p, q in zip(ours.parameters(), exact.parameters(), strict=True)]
    pairs += [(ours.log_prob(x), exact.log_prob(x.double()))]
    for mine, other in pairs:
        assert mine.shape == other.shape
        assert (mine.double() - other).abs().max() <= TOLERANCE
    assert torch.equal(ours.predict(x), exact.predict(x.double()))
    alone = ours(x[3], target[3])
    assert torch.equal(alone.output, found.output[3]) and alone.output.dim() == 0  # whatever the other rows are


def test_adaptive__parts_are_drawn_by_the_generator():
    one, two = (
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 7], generator=repdl.random.Generator(3), contract="sequential")
        for _ in range(2)
    )
    assert repdl.digest(one) == repdl.digest(two)
    assert type(one.head) is nn.Linear and one.head.contract == one.tail[1][0].contract == "sequential"


def test_adaptive__rejects(uniform):
    layer, x = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 7]), uniform(3, 8)
    with pytest.raises(OutOfRangeError, match="target is 0 to 12, expected 0 to 11"):
        layer(x, torch.tensor([0, 12, 1]))
    with pytest.raises(ShapeError, match=r"target.shape\[0\] is 2, expected 3"):
        layer(x, torch.tensor([0, 1]))
    with pytest.raises(ShapeError, match=r"input.dim\(\) is 2"):
        layer(x, torch.tensor(0))
