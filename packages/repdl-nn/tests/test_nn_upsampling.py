"""Upsample and its relatives: conversion, options, copies."""

from __future__ import annotations

import copy

import pytest
import torch

import repdl
from repdl import nn
from repdl.testing import assert_same_bits


@pytest.mark.parametrize("contract", [None, "sequential"])
def test_upsample__as_torch(contract, uniform):
    x = uniform(2, 3, 7, 6)
    for name, options in (
        ("Upsample", {"size": (9, 5)}),
        ("Upsample", {"scale_factor": 1.7, "mode": "bilinear", "align_corners": False}),
        ("Upsample", {"scale_factor": 2, "mode": "bicubic", "recompute_scale_factor": True}),
        ("UpsamplingNearest2d", {"scale_factor": 2}),
        ("UpsamplingBilinear2d", {"size": 10}),
    ):
        theirs = getattr(torch.nn, name)(**options)
        ours = repdl.from_torch_module(theirs, contract=contract)
        assert type(ours) is getattr(nn, name)
        # Positions that torch rounds to float32 are off by 2**-21 at most, and so are weights; elements are below 1.
        torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=16 * 2.0**-21)
        assert_same_bits(copy.deepcopy(ours)(x), ours(x))
