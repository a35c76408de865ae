"""What is particular to bilinear: torch's values and derivatives, its order, errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_multilinear, assert_rejected

SHAPES = [
    ((5, 7), (5, 6), (4, 7, 6)),
    ((2, 3, 4), (2, 3, 5), (6, 4, 5)),
    ((4,), (5,), (6, 4, 5)),
    ((0, 4), (0, 5), (6, 4, 5)),
]


@pytest.mark.parametrize("bias", [False, True])
def test_bilinear__values_and_derivatives(bias: bool) -> None:
    for first, second, weight in SHAPES:
        tensors = [uniform(1, *first), uniform(2, *second), uniform(3, *weight)]
        tensors += [uniform(4, weight[0])] if bias else []
        assert_multilinear(ops.bilinear, F.bilinear, tensors, 2 * 7 * 6 + 9, uniform(5, *first[:-1], weight[0]))


def test_bilinear__written_out_in_ops() -> None:
    x, y, w, b = uniform(1, 3, 300), uniform(2, 3, 7), uniform(3, 4, 300, 7), uniform(4, 4)
    for o in range(4):
        z = ops.mm(x, w[o])
        expected = torch.stack([ops.add(ops.mm(z[i : i + 1], y[i].unsqueeze(1)).squeeze(), b[o]) for i in range(3)])
        assert_same_bits(ops.bilinear(x, y, w, b)[:, o], expected)


def test_bilinear__rejects() -> None:
    x, y, w = uniform(1, 3, 4), uniform(2, 3, 5), uniform(3, 6, 4, 5)
    for bad, words in (
        ((x[:2], y, w), "input2.shape[:-1] is (3,), expected (2,)"),
        ((x[:, :3], y, w), "input1.shape[-1] is 3, expected 4 (= weight.shape[1])"),
        ((x, y[:, :3], w), "input2.shape[-1] is 3, expected 5 (= weight.shape[2])"),
        ((x, y, w[0]), "weight.dim() is 2"),
        ((x, y, w, uniform(4, 5)), "bias.shape is (5,), expected (6,)"),
    ):
        assert_rejected(lambda: ops.bilinear(*bad), ValueError, words, by_torch=lambda: F.bilinear(*bad))
    assert_rejected(lambda: ops.bilinear(x, y, w.double()), TypeError, "weight.dtype is float64")
