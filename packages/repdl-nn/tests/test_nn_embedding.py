"""Embedding: initial values, padding, pretrained tables, conversion, and training of tied weights."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import repdl
from repdl import nn, random
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits

AT = torch.tensor([[1, 4, 1, 0], [2, 1, 1, 4]])


def test_embedding__draws_from_its_generator():
    layer = nn.Embedding(500, 8, padding_idx=3, generator=random.Generator(1))
    drawn = random.normal_(torch.empty(500, 8), generator=random.Generator(1))
    drawn[3] = 0
    assert_same_bits(layer.weight.detach(), drawn)
    layer.generator = random.Generator(1)
    with torch.no_grad():
        layer.weight.fill_(7)
    layer.reset_parameters()
    assert_same_bits(layer.weight.detach(), drawn)


def test_embedding__from_pretrained():
    table = torch.arange(15.0).view(5, 3)
    layer = nn.Embedding.from_pretrained(table, padding_idx=-1)
    assert type(layer) is nn.Embedding and not layer.weight.requires_grad and layer.padding_idx == 4
    assert_same_bits(layer(AT), table[AT])
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


def test_embedding__padding_row_stays():
    layer = nn.Embedding(5, 3, padding_idx=1)
    repdl.ops.sum(layer(AT)).backward()
    assert layer.weight.grad[1].eq(0).all() and layer.weight.grad[4].eq(2).all()


def test_embedding__contract_of_the_gradient():
    at, cotangent = torch.zeros(3000, dtype=torch.int64), torch.linspace(-1, 1, 3000)[:, None] ** 3 + 0.1
    grads = {}
    for contract in ("v1", "sequential"):
        layer = nn.Embedding(2, 1, contract=contract)
        layer(at).backward(cotangent)
        grads[contract] = layer.weight.grad[0]
        assert_same_bits(grads[contract], repdl.ops.sum(cotangent, 0, contract=contract))
    assert not torch.equal(*grads.values())


def test_embedding__converts():
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3, padding_idx=1), torch.nn.Linear(3, 5))
    model[1].weight = model[0].weight  # tied
    converted = repdl.from_torch_module(model)
    assert type(converted[0]) is nn.Embedding and converted[0].weight is converted[1].weight
    assert_same_bits(converted[0](AT), model[0](AT))
    repdl.ops.cross_entropy(converted(AT).flatten(0, 1), AT.flatten()).backward()
    torch.nn.functional.cross_entropy(model(AT).flatten(0, 1), AT.flatten()).backward()
    torch.testing.assert_close(converted[0].weight.grad, model[0].weight.grad)
    for twin in (copy.deepcopy(converted), pickle.loads(pickle.dumps(converted))):
        assert repdl.digest(twin) == repdl.digest(converted)


@pytest.mark.parametrize("layer", ["Embedding", "EmbeddingBag"])
def test_embedding__left_out(layer):
    with pytest.raises(UnsupportedError, match=f"{layer}, has no counterpart with sparse=True"):
        repdl.from_torch_module(getattr(torch.nn, layer)(5, 3, sparse=True))
    with pytest.raises(UnsupportedError, match="sparse is True"):
        getattr(nn, layer)(5, 3, sparse=True)(AT)


@pytest.mark.parametrize("layer", ["Embedding", "EmbeddingBag"])
def test_embedding__max_norm_changes_the_table_as_torch(layer):
    theirs = getattr(torch.nn, layer)(5, 3, max_norm=1.0, norm_type=2.0)
    ours = repdl.from_torch_module(theirs)
    for module in (ours, theirs):
        module(AT[:, :2])
    torch.testing.assert_close(ours.weight, theirs.weight)
    assert_same_bits(ours.weight[[0, 3]].detach(), theirs.weight[[0, 3]].detach())
    assert ours.weight[[1, 2, 4]].detach().norm(dim=1).max() < 1 + 1e-6


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag__converts(mode):
    model = torch.nn.EmbeddingBag(5, 3, mode=mode, padding_idx=1)
    converted = repdl.from_torch_module(model)
    assert type(converted) is nn.EmbeddingBag
    for module in (converted, model):
        module(AT).backward(torch.arange(6.0).view(2, 3))
    torch.testing.assert_close(converted(AT), model(AT))
    torch.testing.assert_close(converted.weight.grad, model.weight.grad)
    drawn = nn.EmbeddingBag(500, 8, padding_idx=3, generator=random.Generator(1))
    assert_same_bits(drawn.weight, nn.Embedding(500, 8, padding_idx=3, generator=random.Generator(1)).weight)
