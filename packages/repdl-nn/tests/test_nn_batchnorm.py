"""BatchNorm1d and BatchNorm2d against torch: outputs, gradients, running statistics."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from repdl import nn
from repdl.errors import ShapeError

# Means of at most n = 48 values in [-1, 1], within n * 2**-24, then a few operations that
# the division by a deviation of at least 0.25 magnifies by at most 4 a step: 4**3 * n * 2**-24.
TOLERANCE = 64 * 48 * 2.0**-24

LAYERS: list[tuple[Any, Any, tuple[int, ...]]] = [
    (nn.BatchNorm1d, torch.nn.BatchNorm1d, (8, 3)),
    (nn.BatchNorm1d, torch.nn.BatchNorm1d, (4, 3, 5)),
    (nn.BatchNorm2d, torch.nn.BatchNorm2d, (3, 3, 4, 4)),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"momentum": None},
    {"momentum": 0.5, "eps": 0.01},
    {"affine": False},
    {"track_running_stats": False},
    {"affine": False, "track_running_stats": False, "momentum": None},
]


@pytest.mark.parametrize(("ours", "theirs", "shape"), LAYERS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batchnorm__training_then_evaluation(ours, theirs, shape, options, compare, uniform):
    layer, reference = ours(3, **options), theirs(3, **options)
    for _ in range(3):
        layer.zero_grad()
        compare(layer, reference, uniform(*shape), tolerance=TOLERANCE)
    layer.eval(), reference.eval()
    layer.zero_grad()
    compare(layer, reference, uniform(*shape), tolerance=TOLERANCE)


def test_batchnorm__running_statistics_update(uniform):
    layer = nn.BatchNorm2d(3)
    layer(uniform(2, 3, 4, 4) + 5)
    assert int(layer.num_batches_tracked) == 1
    assert (layer.running_mean > 0.4).all() and (layer.running_var < 1).all()
    before = layer.running_mean.clone()
    layer.eval()(uniform(2, 3, 4, 4))
    assert torch.equal(layer.running_mean, before) and int(layer.num_batches_tracked) == 1


def test_batchnorm__cumulative_average_is_the_mean_of_means(uniform):
    layer = nn.BatchNorm1d(3, momentum=None)
    batches = [uniform(8, 3) for _ in range(5)]
    for batch in batches:
        layer(batch)
    mean = torch.stack(batches).double().mean((0, 1))
    assert (layer.running_mean.double() - mean).abs().max() <= 16 * 2.0**-24


def test_batchnorm__refused_input_changes_nothing():
    layer = nn.BatchNorm2d(3)
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    with pytest.raises(ShapeError, match="expected 4"):
        layer(torch.ones(2, 3, 4))
    with pytest.raises(ValueError):
        layer(torch.ones(2, 4, 4, 4))
    assert all(torch.equal(value, state[key]) for key, value in layer.state_dict().items())


def test_batchnorm__one_value_a_channel_is_refused_in_training():
    with pytest.raises(ValueError):
        nn.BatchNorm1d(3)(torch.ones(1, 3))


def test_batchnorm__compiled_has_the_same_bits_and_statistics(uniform):
    eager = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
    model = copy.deepcopy(eager)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        x = uniform(2, 1, 6, 6)
        expected, output = eager(x), compiled(x)
        cotangent = uniform(*output.shape)
        expected.backward(cotangent)
        output.backward(cotangent)
        assert torch.equal(output, expected)
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    for a, b in zip(model.buffers(), eager.buffers(), strict=True):
        assert torch.equal(a, b)
