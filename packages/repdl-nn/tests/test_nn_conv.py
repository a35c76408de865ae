"""Convolutions against torch: every option, outputs and gradients, errors; lazy modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import repdl
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


SIDES = {1: (9,), 2: (9, 10), 3: (5, 6, 7)}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_conv__every_padding_mode_and_number_of_sides(compare, uniform):
    # At most 2 images of 210 positions, products in [-1, 1]: within K * K * 2**-24.
    bound = 420 * 420 * 2.0**-24
    for dims, sides in SIDES.items():
        for mode in ("zeros", "reflect", "replicate", "circular"):
            for padding in (1, "same", (2,) * dims):
                options = {"kernel_size": (3, 2, 4)[:dims], "padding": padding, "padding_mode": mode, "groups": 2}
                for batch in ((2,), ()):
                    layer, reference = (getattr(of, f"Conv{dims}d")(4, 6, **options) for of in (nn, torch.nn))
                    compare(layer, reference, uniform(*batch, 4, *sides), tolerance=bound)
        options = {"stride": 2, "padding": 1, "groups": 2, "dilation": 2}
        for x in (uniform(2, 4, *sides), uniform(4, *sides)):
            layer, reference = (getattr(of, f"ConvTranspose{dims}d")(4, 6, 3, **options) for of in (nn, torch.nn))
            compare(layer, reference, x, tolerance=bound)
            size = [n + 1 for n in layer(x).shape[-dims:]]
            assert layer(x, output_size=size).shape == reference(x, output_size=size).shape


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.parametrize("kind", [f"Conv{way}{d}d" for way in ("", "Transpose") for d in SIDES])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_lazy__convolutions_in_groups_have_their_channels(kind, groups, uniform):
    """By the first input, and by the weight of a state dict."""
    x = uniform(2, 6, *SIDES[int(kind[-2])])
    whole = getattr(nn, kind)(6, 12, 2, groups=groups)
    for loads in (True, False):
        lazy = getattr(nn, f"Lazy{kind}")(12, 2, groups=groups)
        if loads:
            lazy.load_state_dict(whole.state_dict())
        found = lazy(x)
        assert (lazy.in_channels, lazy.weight.shape) == (6, whole.weight.shape)
        assert not loads or torch.equal(found, whole(x))
        assert repr(lazy) == repr(whole)


LAZY = {
    "LazyLinear": ((5,), (4, 7)),
    **{f"LazyConv{d}d": ((5, 2), (2, 3, *SIDES[d])) for d in SIDES},
    **{f"LazyConvTranspose{d}d": ((5, 2), (2, 3, *SIDES[d])) for d in SIDES},
    **{f"LazyBatchNorm{d}d": ((), (2, 3, *SIDES[d])) for d in SIDES},
    **{f"LazyInstanceNorm{d}d": ((), (2, 3, *SIDES[d])) for d in SIDES},
}


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_lazy__converted_once_they_have_their_sizes(uniform):
    """Or before, and then the first input gives them."""
    for name, (args, shape) in LAZY.items():
        model = torch.nn.Sequential(getattr(torch.nn, name)(*args))
        x = uniform(*shape)
        early = repdl.from_torch_module(model)
        model(x)
        early.load_state_dict(model.state_dict())
        early.eval()(x)
        assert type(early[0]) is getattr(nn, name.removeprefix("Lazy"))
        converted = repdl.from_torch_module(model)
        assert type(converted[0]) is getattr(nn, name.removeprefix("Lazy"))
        assert list(converted.state_dict()) == list(model.state_dict())
        assert torch.equal(converted.eval()(x), early(x))
        assert (converted.eval()(x) - model.eval()(x)).detach().abs().max() <= 2.0**-18
