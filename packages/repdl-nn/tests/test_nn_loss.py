"""CrossEntropyLoss and NLLLoss against torch: every option."""

from __future__ import annotations

import pytest
import torch

from repdl import nn

# A log-probability of 5 classes takes fewer than 16 roundings of values of at most 8; a
# sum over at most 12 targets adds 12 roundings of at most 12 * 8.
TOLERANCE = (16 * 8 + 12) * 12 * 2.0**-24

WEIGHT = torch.tensor([1.0, 0.5, 2.0, 0.25, 1.5])


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "options", [{}, {"weight": WEIGHT}, {"ignore_index": 2}, {"weight": WEIGHT, "ignore_index": 0}]
)
def test_loss__options(name, reduction, options, compare, uniform):
    options = {**options, "reduction": reduction}
    target = torch.tensor([0, 4, 2, 2, 1, 3])
    layer, reference = getattr(nn, name)(**options), getattr(torch.nn, name)(**options)
    compare(layer, reference, uniform(6, 5), target, tolerance=TOLERANCE)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT}, {"ignore_index": 2}])
def test_loss__label_smoothing(reduction, options, compare, uniform):
    options = {**options, "reduction": reduction, "label_smoothing": 0.25}
    target = torch.tensor([0, 4, 2, 2, 1, 3])
    layer, reference = nn.CrossEntropyLoss(**options), torch.nn.CrossEntropyLoss(**options)
    compare(layer, reference, uniform(6, 5), target, tolerance=TOLERANCE)


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss"])
@pytest.mark.parametrize(
    ("shape", "target_shape"),
    [((5,), ()), ((1, 5), (1,)), ((2, 5, 6), (2, 6)), ((1, 5, 3, 4), (1, 3, 4))],
)
def test_loss__shapes(name, shape, target_shape, compare, uniform):
    target = (torch.arange(torch.Size(target_shape).numel()) * 3 % 5).reshape(target_shape)
    compare(getattr(nn, name)(), getattr(torch.nn, name)(), uniform(*shape), target, tolerance=TOLERANCE)


def test_loss__weight_is_a_buffer():
    assert list(nn.CrossEntropyLoss(weight=WEIGHT).state_dict()) == ["weight"]


def test_loss__target_out_of_range():
    with pytest.raises((ValueError, IndexError)):
        nn.CrossEntropyLoss()(torch.ones(1, 5), torch.tensor([5]))
