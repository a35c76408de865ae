"""Unfold and Fold: conversion, options, copies."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import repdl
from repdl import nn
from repdl.testing import assert_same_bits

OPTIONS = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": 1, "stride": 2}


@pytest.mark.parametrize("contract", [None, "sequential"])
def test_fold__as_torch(contract, uniform):
    x = uniform(2, 3, 7, 6)
    theirs = torch.nn.Sequential(torch.nn.Unfold(**OPTIONS), torch.nn.Fold((7, 6), **OPTIONS))
    ours = repdl.from_torch_module(theirs, contract=contract)
    assert type(ours[0]) is nn.Unfold and type(ours[1]) is nn.Fold
    assert_same_bits(ours[0](x), theirs[0](x))
    # Each element is the sum of at most 6 equal elements.
    torch.testing.assert_close(ours(x), theirs(x), rtol=6 * 2.0**-24, atol=0)
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert_same_bits(twin(x), ours(x))
