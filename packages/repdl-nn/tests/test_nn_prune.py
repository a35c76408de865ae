"""repdl.nn.utils.prune: masks against torch's, ties, random ones, and models that torch has pruned."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch.nn.utils import prune as torchs

import repdl
from repdl import nn
from repdl.nn.utils import prune
from repdl.testing.compare import assert_same_bits


def _layers() -> tuple[nn.Linear, torch.nn.Linear]:
    weight = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    ours, theirs = nn.Linear(8, 6), torch.nn.Linear(8, 6)
    for layer in (ours, theirs):
        layer.weight.data = weight.clone()
        layer.bias.data = weight[:, 0].clone()
    return ours, theirs


CALLS = {
    "l1": lambda m, x: m.l1_unstructured(x, "weight", 0.3),
    "l1_count": lambda m, x: m.l1_unstructured(x, "weight", 7),
    "l1_none": lambda m, x: m.l1_unstructured(x, "weight", 0.0),
    "scores": lambda m, x: m.l1_unstructured(x, "weight", 0.5, importance_scores=-x.weight.data.exp()),
    "ln": lambda m, x: m.ln_structured(x, "weight", 0.4, n=2, dim=1),
    "ln_first": lambda m, x: m.ln_structured(x, "weight", 2, n=1, dim=0),
    "identity": lambda m, x: m.identity(x, "bias"),
    "custom": lambda m, x: m.custom_from_mask(x, "weight", (torch.arange(48) % 3 > 0).float().view(6, 8)),
    "twice": lambda m, x: m.ln_structured(m.l1_unstructured(x, "weight", 0.5), "weight", 0.5, n=2, dim=1),
    "thrice": lambda m, x: m.l1_unstructured(CALLS["twice"](m, x), "weight", 3),
    "global after others": lambda m, x: (
        m.l1_unstructured(x, "weight", 0.3),
        m.global_unstructured([(x, "weight")], pruning_method=m.L1Unstructured, amount=0.5),
        m.global_unstructured([(x, "weight")], pruning_method=m.L1Unstructured, amount=0.5),
    ),
    "global": lambda m, x: m.global_unstructured(
        [(x, "weight"), (x, "bias")], pruning_method=m.L1Unstructured, amount=0.6
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_prune__as_torch(name):
    ours, theirs = _layers()
    CALLS[name](prune, ours)
    CALLS[name](torchs, theirs)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for key, value in theirs.state_dict().items():
        assert_same_bits(ours.state_dict()[key], value, key)
    assert_same_bits(ours.weight.detach(), theirs.weight.detach())
    hooks = list(ours._forward_pre_hooks.values())
    assert prune.is_pruned(ours) and all(isinstance(hook, prune.BasePruningMethod) for hook in hooks)
    x = torch.ones(2, 8)
    ours(x).sum().backward()
    for key, parameter in ours.named_parameters():
        assert parameter.grad is not None, key
    with torch.no_grad():  # the weight is then a leaf, as torch's deepcopy asks for
        expected = ours(x)
    assert torch.equal(copy.deepcopy(ours)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(ours))(x), expected)
    for key in ("weight", "bias"):
        if hasattr(ours, f"{key}_mask"):
            prune.remove(ours, key)
            torchs.remove(theirs, key)
    assert not prune.is_pruned(ours)
    assert_same_bits(ours.weight.detach(), theirs.weight.detach())


def test_prune__equal_magnitudes_go_by_index():
    layer = nn.Linear(5, 4)
    layer.weight.data = torch.ones(4, 5) * torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    prune.l1_unstructured(layer, "weight", 7)
    assert layer.weight_mask.reshape(-1).tolist() == [0.0] * 7 + [1.0] * 13
    layer = nn.Linear(5, 4)
    layer.weight.data = torch.ones(4, 5)
    prune.ln_structured(layer, "weight", 2, n=2, dim=1)
    assert layer.weight_mask[0].tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]  # topk keeps the first of equal ones


def test_prune__special_values():
    """A masked weight is a zero of its sign; NaN and infinities give the canonical NaN."""
    layer = nn.Linear(4, 1)
    layer.weight.data = torch.tensor([[-2.0, 3.0, torch.inf, -torch.nan]])
    prune.custom_from_mask(layer, "weight", torch.zeros(1, 4))
    assert_same_bits(layer.weight.detach(), torch.tensor([[-0.0, 0.0, torch.nan, torch.nan]]))


def test_prune__random_masks_are_those_of_a_generator():
    for call, count in (
        (lambda x, g: prune.random_unstructured(x, "weight", 0.25, generator=g), 12),
        (lambda x, g: prune.random_structured(x, "weight", 2, 1, generator=g), 12),
        (
            lambda x, g: prune.random_unstructured(prune.random_unstructured(x, "weight", 6, generator=g), "weight", 6),
            12,
        ),
    ):
        masks = []
        for _ in range(2):
            with repdl.random.fork_rng():
                repdl.random.manual_seed(7)
                torch.rand(3)  # on which nothing depends
                masks.append(call(_layers()[0], repdl.random.Generator(1)).weight_mask)
        assert torch.equal(*masks) and int((masks[0] == 0).sum()) == count


def test_prune__errors():
    layer = _layers()[0]
    for call, error, message in (
        (lambda: prune.l1_unstructured(layer, "weight", 49), ValueError, "at most 48"),
        (lambda: prune.l1_unstructured(layer, "weight", 1.5), ValueError, "amount"),
        (lambda: prune.ln_structured(layer, "bias", 1, 2, 0), ValueError, "2 dimensions or more"),
        (lambda: prune.random_structured(layer, "weight", 1, 2), IndexError, "dim is 2"),
        (lambda: prune.custom_from_mask(layer, "weight", torch.ones(2)), ValueError, r"mask.shape is \(2,\)"),
        (
            lambda: prune.global_unstructured([(layer, "weight")], prune.LnStructured, amount=1),
            TypeError,
            "unstructured",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
        assert not prune.is_pruned(layer)


@pytest.mark.parametrize("name", CALLS)
def test_convert__what_torch_has_pruned(name):
    model = torch.nn.Sequential(_layers()[1], torch.nn.ReLU())
    CALLS[name](torchs, model[0])
    converted = repdl.from_torch_module(model)
    hooks = list(converted[0]._forward_pre_hooks.values())
    assert type(converted[0]) is nn.Linear and hooks
    assert all(isinstance(h, prune.BasePruningMethod) for h in hooks if isinstance(h, torchs.BasePruningMethod))
    assert repdl.digest(converted) == repdl.digest(model) and torch.equal(converted[0].weight, model[0].weight)
    x = torch.ones(2, 8)
    assert torch.allclose(converted(x), model(x), atol=1e-5) and repdl.audit(converted, x).ok
    CALLS["l1_count"](prune, converted[0])  # one mask more
    assert isinstance(next(iter(model[0]._forward_pre_hooks.values())), torchs.BasePruningMethod)
