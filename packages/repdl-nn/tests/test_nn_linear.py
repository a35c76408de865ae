"""Linear against torch: outputs and gradients, leading dimensions, options, errors."""

from __future__ import annotations

import pytest
import torch

import repdl
from repdl import nn
from repdl.errors import DTypeError, ShapeError

# A dot product of K products in [-1, 1] passes at most K roundings of sums of at most K:
# within K * K * 2**-24. The longest here, of a gradient too, has K = 40.
TOLERANCE = 40 * 40 * 2.0**-24


@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (2, 1, 4), (0,), (2, 0)])
def test_linear__leading_dimensions(leading, compare, uniform):
    output = compare(nn.Linear(7, 3), torch.nn.Linear(7, 3), uniform(*leading, 7), tolerance=TOLERANCE)
    assert output.shape == (*leading, 3)


@pytest.mark.parametrize(("inputs", "outputs"), [(40, 20), (1, 1), (5, 1), (1, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear__sizes(inputs, outputs, bias, compare, uniform):
    layer, reference = nn.Linear(inputs, outputs, bias=bias), torch.nn.Linear(inputs, outputs, bias=bias)
    compare(layer, reference, uniform(30, inputs), tolerance=TOLERANCE)


def test_linear__non_contiguous_input_has_the_same_bits(uniform):
    layer, x = nn.Linear(7, 3), uniform(7, 5).t()
    assert torch.equal(layer(x), layer(x.contiguous()))


def test_linear__batch_slice_is_slice_of_batch(uniform):
    layer, x = nn.Linear(300, 4), uniform(9, 300)
    assert torch.equal(layer(x)[2:5], layer(x[2:5]))


def test_linear__contract_is_that_of_the_op(uniform):
    x = uniform(8, 2000)
    layer = nn.Linear(2000, 8, contract="sequential")
    expected = repdl.ops.linear(x, layer.weight, layer.bias, contract="sequential")
    assert torch.equal(layer(x), expected)
    assert not torch.equal(repdl.ops.linear(x, layer.weight, layer.bias, contract="v1"), expected)


def test_linear__wrong_features():
    with pytest.raises(ShapeError, match="expected 7"):
        nn.Linear(7, 3)(torch.ones(2, 6))


def test_linear__wrong_dtype():
    with pytest.raises(DTypeError, match="float64"):
        nn.Linear(7, 3)(torch.ones(2, 7, dtype=torch.float64))
