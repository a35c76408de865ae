"""What all layers have in common: contract, repr, pickling, state dicts, threads."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch

import repdl
from repdl import nn
from repdl.errors import ContractError
from repdl.nn import functional as F

LAYERS: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("Linear", (600, 4), (3, 600)),
    ("Conv2d", (32, 4, 5), (2, 32, 8, 8)),
    ("BatchNorm1d", (3,), (100, 3)),
    ("BatchNorm2d", (3,), (5, 3, 8, 8)),
    ("ReLU", (), (4, 5)),
    ("MaxPool2d", (2,), (2, 3, 8, 8)),
    ("Softmax", (1,), (3, 2000)),
    ("LogSoftmax", (1,), (3, 2000)),
    ("CrossEntropyLoss", (), (100, 5)),
    ("NLLLoss", (), (100, 5)),
]
every_layer = pytest.mark.parametrize(("name", "arguments", "shape"), LAYERS, ids=[name for name, _, _ in LAYERS])


def _call(layer: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Output, gradients of input and parameters, buffers."""
    x = x.clone().requires_grad_()
    is_loss = isinstance(layer, (nn.CrossEntropyLoss, nn.NLLLoss))
    output = layer(x, torch.arange(len(x)) % 5) if is_loss else layer(x)
    layer.zero_grad()
    output.backward(torch.linspace(-1, 1, output.numel()).reshape(output.shape))
    return [output.detach(), x.grad, *(p.grad for p in layer.parameters()), *layer.buffers()]


def _equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@every_layer
def test_layer__is_torchs_class(name, arguments, shape):
    layer = getattr(nn, name)(*arguments)
    assert isinstance(layer, getattr(torch.nn, name)) and isinstance(layer, nn.Layer)
    assert type(layer).__name__ == name


@every_layer
def test_layer__repr_is_torchs_until_a_contract_is_set(name, arguments, shape):
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    assert repr(ours(*arguments)) == repr(theirs(*arguments))
    assert "contract='sequential'" in repr(ours(*arguments, contract="sequential"))


@every_layer
def test_layer__initial_values_are_torchs(name, arguments, shape):
    torch.manual_seed(3)
    ours = getattr(nn, name)(*arguments).state_dict()
    torch.manual_seed(3)
    theirs = getattr(torch.nn, name)(*arguments).state_dict()
    assert list(ours) == list(theirs) and all(torch.equal(ours[k], theirs[k]) for k in ours)


@every_layer
def test_layer__state_dict_interchange(name, arguments, shape):
    ours, theirs = getattr(nn, name)(*arguments), getattr(torch.nn, name)(*arguments)
    for tensor in ours.state_dict().values():
        tensor.fill_(2)
    theirs.load_state_dict(ours.state_dict())
    assert all(bool((tensor == 2).all()) for tensor in theirs.state_dict().values())
    for tensor in theirs.state_dict().values():
        tensor.fill_(3)
    ours.load_state_dict(theirs.state_dict())
    assert all(bool((tensor == 3).all()) for tensor in ours.state_dict().values())


@every_layer
def test_layer__pickle_save_and_deepcopy(name, arguments, shape, uniform):
    layer, x = getattr(nn, name)(*arguments, contract="sequential"), uniform(*shape)
    stream = io.BytesIO()
    torch.save(layer, stream)
    stream.seek(0)
    copies = [
        pickle.loads(pickle.dumps(layer)),
        torch.load(stream, weights_only=False),
        copy.deepcopy(layer),
    ]
    expected = _call(layer, x)
    for other in copies:
        assert type(other) is type(layer) and other.contract == "sequential"
        assert _equal(_call(other, x), expected)


@every_layer
def test_layer__process_wide_contract_equals_own(name, arguments, shape, uniform):
    layer, x = getattr(nn, name)(*arguments), uniform(*shape)
    own = copy.deepcopy(layer)
    own.contract = "sequential"
    with repdl.use_contract("sequential"):
        expected = _call(layer, x)
    assert _equal(_call(own, x), expected)


@every_layer
def test_layer__thread_counts(name, arguments, shape, uniform):
    layer, x = getattr(nn, name)(*arguments), uniform(*shape)
    before, results = repdl.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            repdl.set_num_threads(threads)
            results.append(_call(copy.deepcopy(layer), x))
    finally:
        repdl.set_num_threads(before)
    assert all(_equal(result, results[0]) for result in results)


def test_layer__contract_is_keyword_only():
    with pytest.raises(TypeError):
        nn.ReLU(False, "sequential")


def test_layer__unknown_contract():
    with pytest.raises(ContractError, match="nonsense"):
        nn.Linear(2, 2, contract="nonsense")


def test_layer__contract_object_is_kept_by_name():
    assert nn.ReLU(contract=repdl.Contract(dot_chunk=0, sum_lanes=1, sum_block=0)).contract == "sequential"


def test_functional__is_that_of_ops():
    assert all(
        getattr(F, name) is getattr(repdl.ops, name) for name in F.__all__ if name not in (*F.MOVES, *F.OTHER_NAMES)
    )


def test_nn__containers_are_torchs():
    for name in ("Sequential", "ModuleList", "ModuleDict", "Flatten", "Identity", "Module"):
        assert getattr(nn, name) is getattr(torch.nn, name)


class Traced(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(repdl.nn.Conv2d(1, 2, 3), repdl.nn.BatchNorm2d(2), repdl.nn.ReLU())
        self.head = repdl.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(input=self.body(x).flatten(1)[:, :4])


def test_layer__is_a_leaf_of_torch_fx() -> None:
    model = Traced()
    traced = torch.fx.symbolic_trace(model)
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == [
        "body.0",
        "body.1",
        "body.2",
        "head",
    ]
    x = torch.ones(2, 1, 5, 5)
    assert torch.equal(traced.eval()(x), model.eval()(x))


@every_layer
def test_layer__own_contract_counts_in_the_digest(name, arguments, shape):
    layer, theirs = getattr(nn, name)(*arguments), getattr(torch.nn, name)(*arguments)
    theirs.load_state_dict(layer.state_dict())
    model = torch.nn.Sequential(torch.nn.Sequential(layer))
    state, plain = repdl.digest(model.state_dict()), repdl.digest(model)
    assert plain == repdl.digest(torch.nn.Sequential(torch.nn.Sequential(theirs)))
    with repdl.use_contract("sequential"):
        assert repdl.digest(model) == plain, "the default belongs to the call, not to the layer"
    digests = {plain}
    for contract in ("v1", "sequential", "dot_chunk=8,sum_lanes=1,sum_block=0"):
        layer.contract = contract
        assert repdl.digest(copy.deepcopy(model)) == repdl.digest(model)
        assert repdl.digest(model.state_dict()) == state
        digests.add(repdl.digest(model))
    assert len(digests) == 4
    layer.contract = "dot_chunk=0,sum_lanes=1,sum_block=0"
    assert repdl.digest(model) in digests, "two names of one contract"
    layer.contract = "nonsense"
    with pytest.raises(ContractError, match="nonsense"):
        repdl.digest(model)


def test_layer__digest_says_which_layer_has_the_contract():
    model = torch.nn.Sequential(nn.ReLU(), nn.ReLU())
    digests = set()
    for first, second in ((None, None), (None, "sequential"), ("sequential", None), ("sequential", "sequential")):
        model[0].contract, model[1].contract = first, second
        digests.add(repdl.digest(model))
    assert len(digests) == 4


def test_layer__digest_of_foreign_modules():
    """An attribute of that name is a contract only where the class has it."""
    model = torch.nn.Sequential(torch.nn.ReLU())
    before = repdl.digest(model)
    model[0].contract = "lease"
    assert repdl.digest(model) == before
