"""Conv2d against torch: every option, outputs and gradients, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repdl import nn
from repdl.errors import ShapeError

# The longest dot product is that of the weight's gradient, 2 images of 9 by 10 positions:
# K = 180 products in [-1, 1], within K * K * 2**-24.
TOLERANCE = 180 * 180 * 2.0**-24

OPTIONS: list[dict[str, Any]] = [
    {"kernel_size": 3},
    {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 2), "dilation": (2, 1)},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": (2, 4), "padding": "same", "dilation": (1, 3)},
    {"kernel_size": 3, "padding": "valid", "stride": 2},
    {"kernel_size": 3, "groups": 2, "bias": False},
    {"kernel_size": 1, "groups": 4, "stride": 3},
    {"kernel_size": 3, "padding": (1, 2), "padding_mode": "reflect"},
    {"kernel_size": 3, "padding": (1, 2), "padding_mode": "replicate"},
    {"kernel_size": 3, "padding": (1, 2), "padding_mode": "circular", "stride": 2},
    {"kernel_size": (3, 4), "padding": "same", "padding_mode": "reflect"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_conv2d__options(options, compare, uniform):
    layer, reference = nn.Conv2d(4, 8, **options), torch.nn.Conv2d(4, 8, **options)
    compare(layer, reference, uniform(2, 4, 9, 10), tolerance=TOLERANCE)


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[7]], ids=str)
def test_conv2d__without_batch(options, compare, uniform):
    layer, reference = nn.Conv2d(4, 8, **options), torch.nn.Conv2d(4, 8, **options)
    assert compare(layer, reference, uniform(4, 9, 10), tolerance=TOLERANCE).dim() == 3


def test_conv2d__one_output_channel_and_one_image(compare, uniform):
    compare(nn.Conv2d(1, 1, 3), torch.nn.Conv2d(1, 1, 3), uniform(1, 1, 3, 3), tolerance=TOLERANCE)


def test_conv2d__batch_slice_is_slice_of_batch(uniform):
    layer, x = nn.Conv2d(4, 5, 3, padding=1), uniform(4, 4, 6, 6)
    assert torch.equal(layer(x)[1:3], layer(x[1:3]))


def test_conv2d__wrong_channels():
    with pytest.raises(ShapeError, match="expected 4"):
        nn.Conv2d(4, 8, 3)(torch.ones(1, 3, 9, 9))


def test_conv2d__kernel_larger_than_input():
    with pytest.raises(ShapeError, match="kernel is larger"):
        nn.Conv2d(1, 1, 5)(torch.ones(1, 1, 4, 4))
