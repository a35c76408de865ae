"""MaxPool2d against torch: it selects, so outputs are exact."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repdl import nn
from repdl.errors import ShapeError

# The output selects; the gradient of an element adds at most 9 values of at most 1.
TOLERANCE = 9 * 9 * 2.0**-24

OPTIONS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)},
    {"kernel_size": 2, "dilation": (1, 2), "stride": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 8, 9)])
def test_maxpool2d__options(options, shape, compare, uniform):
    x = uniform(*shape)
    compare(nn.MaxPool2d(**options), torch.nn.MaxPool2d(**options), x, tolerance=TOLERANCE)
    assert torch.equal(nn.MaxPool2d(**options)(x), torch.nn.MaxPool2d(**options)(x))


def test_maxpool2d__return_indices(uniform):
    x = uniform(2, 3, 6, 6)
    ours, theirs = nn.MaxPool2d(2, return_indices=True)(x), torch.nn.MaxPool2d(2, return_indices=True)(x)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_maxpool2d__kernel_larger_than_input():
    with pytest.raises(ShapeError):
        nn.MaxPool2d(5)(torch.ones(1, 1, 4, 4))
