"""Distances, and losses of them, against torch: layers of which torch's module database has no samples."""

from __future__ import annotations

import pytest
import torch

import repdl
from repdl import nn
from repdl.errors import UnsupportedError

# Norms of 0.5 and more of 5 elements, in quotients below 2, and sums of at most 30 of them.
TOLERANCE = 30 * 16 * 2.0**-24


def test_distances__against_torch(compare, uniform):
    for name, options in (
        ("CosineSimilarity", {}),
        ("CosineSimilarity", {"dim": 0, "eps": 0.1}),
        ("PairwiseDistance", {}),
        ("PairwiseDistance", {"p": 1.0, "eps": 0.0, "keepdim": True}),
    ):
        x, y = uniform(6, 5), uniform(6, 5)
        compare(getattr(nn, name)(**options), getattr(torch.nn, name)(**options), x, y, tolerance=TOLERANCE)


def test_triplets__against_torch(compare, uniform):
    def far(x, y):
        return repdl.ops.amax(repdl.ops.abs(repdl.ops.sub(x, y)), -1)

    for name, options in (
        ("TripletMarginLoss", {}),
        ("TripletMarginLoss", {"margin": 0.7, "p": 1, "swap": True, "reduction": "none"}),
        ("TripletMarginWithDistanceLoss", {}),
        ("TripletMarginWithDistanceLoss", {"margin": 0.7, "swap": True, "reduction": "sum"}),
        ("TripletMarginWithDistanceLoss", {"distance_function": torch.nn.functional.pairwise_distance}),
        ("TripletMarginWithDistanceLoss", {"distance_function": far}),
    ):
        given = [uniform(6, 5) for _ in range(3)]
        theirs = getattr(torch.nn, name)(**options)
        compare(getattr(nn, name)(**options), theirs, *given, tolerance=TOLERANCE)
        converted = repdl.from_torch_module(theirs)
        assert type(converted) is getattr(nn, name)
        assert torch.equal(converted(*given), getattr(nn, name)(**options)(*given))


def test_triplets__refuse_a_distance_of_torch(uniform):
    given = [uniform(6, 5) for _ in range(3)]
    loss = nn.TripletMarginWithDistanceLoss(distance_function=torch.nn.functional.cosine_similarity)
    with pytest.raises(UnsupportedError, match="distance_function is torch's .*expected a function of repdl.ops"):
        loss(*given)


def test_rrelu__layer(uniform):
    x = uniform(50, 4)
    layer = nn.RReLU(0.1, 0.3, generator=repdl.random.Generator(1))
    drawn = repdl.ops.rrelu(x, 0.1, 0.3, True, generator=repdl.random.Generator(1))
    assert torch.equal(layer(x), drawn) and not torch.equal(drawn, layer(x))
    assert torch.equal(layer.eval()(x), repdl.ops.leaky_relu(x, 0.2))
