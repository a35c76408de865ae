"""Every layer on the samples of torch's own module database, against torch in float64."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

import repdl
from repdl import nn

pytest.importorskip("expecttest", reason="torch's module database needs it")
with pytest.MonkeyPatch.context() as patch:  # torch's module would freeze flags for all tests of the process
    patch.setattr(torch.backends, "disable_global_flags", lambda: None)
    from torch.testing._internal.common_modules import module_db

LAYERS = {name for name, value in vars(nn).items() if isinstance(value, type) and issubclass(value, nn.Layer)}
LAYERS = {name for name in LAYERS if not name.startswith("Lazy")}  # which become others (test_nn_namespace.py)
INFOS = {info.module_cls.__name__: info for info in module_db if info.module_cls.__name__ in LAYERS}
DROPOUTS = {name for name in LAYERS if "Dropout" in name}
UNPOOLS = {name for name in LAYERS if "Unpool" in name or "Upsampl" in name}
WITHOUT = {
    *("CosineSimilarity", "EmbeddingBag", "Fold", "Hardsigmoid", "Layer", "PairwiseDistance", "RReLU", "Unfold"),
    *("AdaptiveLogSoftmaxWithLoss", "SyncBatchNorm", "TransformerDecoder"),
    *("TripletMarginLoss", "TripletMarginWithDistanceLoss"),
    *UNPOOLS,
    *DROPOUTS,
}
"""Layers of which the database has no samples."""

BOUNDS = {torch.float32: 2.0**-13, torch.float64: 2.0**-42}
"""Of the largest element of a result: samples have few terms, none far above the others."""
_CTC_ROUNDINGS = 2**11
"""Four of logarithms below 2**10, whose exp the gradients of CTCLoss are; in units of eps."""

every_layer = pytest.mark.parametrize("name", sorted(INFOS))


def samples(name: str, training: bool) -> Iterator[tuple[Any, Any]]:
    """Constructor's and forward's arguments, a pair of (args, kwargs) each."""
    info = INFOS[name]
    torch.manual_seed(0)
    for sample in info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    ):
        constructor, forward = sample.constructor_input, sample.forward_input
        yield (constructor.args, constructor.kwargs), (forward.args, forward.kwargs)


def detached(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def double(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().double().requires_grad_(value.requires_grad) if value.is_floating_point() else value
    return value


def tensors(*values: Any) -> list[torch.Tensor]:
    """The tensors in tuples, lists, dictionaries and packed sequences."""
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


class OfLogits(torch.nn.Module):
    """CTCLoss of a log_softmax: torch's derivative is right through that alone."""

    def __init__(self, loss: torch.nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: torch.Tensor, *rest: Any) -> Any:
        return self.loss(logits.log_softmax(-1), *rest)


def results(module: torch.nn.Module, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Outputs, the gradients of inputs and parameters, and buffers."""
    output = module(*args, **kwargs)
    outputs = tensors(output)
    wanted = [t for t in (*tensors(args, kwargs), *module.parameters()) if t.requires_grad]
    grads: list[torch.Tensor] = []
    if outputs[0].requires_grad:
        count = outputs[0].numel()
        cotangent = torch.tensor([2 * i / max(count - 1, 1) - 1 for i in range(count)], dtype=torch.float64)
        cotangent = cotangent.reshape(outputs[0].shape)
        found = torch.autograd.grad(outputs[0], wanted, cotangent.to(outputs[0].dtype), allow_unused=True)
        grads = [g if g is not None else torch.zeros(()) for g in found]
    return [*(t.detach() for t in outputs), *grads, *module.buffers()]


def test_samples__of_every_layer() -> None:
    assert LAYERS - set(INFOS) == WITHOUT


@pytest.mark.parametrize(
    ("name", "training"),
    [
        pytest.param(name, training, marks=() if training or "Norm" in name else pytest.mark.nightly)
        for name in sorted(INFOS)
        for training in (True, False)
    ],
)
def test_samples__as_torch(name: str, training: bool) -> None:
    count = 0
    for sample, dtype in itertools.product(samples(name, training), BOUNDS):
        (args, kwargs), (inputs, named) = sample
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about sizes that broadcast
            ours = getattr(nn, name)(*args, **kwargs).train(training)
            theirs = getattr(torch.nn, name)(*args, **kwargs).train(training)
            theirs.load_state_dict(ours.state_dict())
            exact = copy.deepcopy(theirs).double()
            if name == "CTCLoss":
                ours, exact = OfLogits(ours), OfLogits(exact)
            expected = results(exact, tree_map(double, inputs), tree_map(double, named))
            converted = double if dtype is torch.float64 else detached
            actual = results(ours.to(dtype), tree_map(converted, inputs), tree_map(converted, named))
        assert len(actual) == len(expected)
        bound = max(BOUNDS[dtype], _CTC_ROUNDINGS * torch.finfo(dtype).eps * (name == "CTCLoss"))
        for a, e in zip(actual, expected):
            assert a.shape == e.shape
            assert torch.equal(a.isnan(), e.isnan())
            error, largest = (a.double() - e).nan_to_num(), e.nan_to_num().abs()
            if a.numel():
                assert error.abs().max() <= bound * max(1.0, float(largest.max())), (args, kwargs, dtype)
        count += 1
    assert count > 0


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(7), b.nan_to_num(7))


COMPOSED = {"LocalResponseNorm", "LPPool1d", "LPPool2d", "LPPool3d", "Softsign", "Tanhshrink"}
"""Layers that torch's Python composes of functions, each with its derivative, where RepDL's is one op."""


@pytest.mark.parametrize("name", sorted(INFOS.keys() - COMPOSED))
def test_samples__torchs_layers_have_the_same_bits_under_enable(name: str) -> None:
    calls, expected = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about sizes that broadcast
        for training in (True, False):
            for (args, kwargs), (inputs, named) in samples(name, training):
                ours = getattr(nn, name)(*args, **kwargs).train(training)
                theirs = getattr(torch.nn, name)(*args, **kwargs).train(training)
                theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
                calls.append((theirs, inputs, named))
                expected.append(results(ours, inputs, named))
        with repdl.enabled():
            actual = [results(*call) for call in calls]
    for call, e, a in zip(calls, expected, actual):
        assert len(a) == len(e) and all(map(same, a, e)), call


@every_layer
def test_samples__reach_nothing_of_torchs(name: str) -> None:
    """Beside registered ops a layer moves data and compares, forward and backward."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about sizes that broadcast
        for (args, kwargs), (inputs, named) in [*samples(name, True)][:2]:
            report = repdl.audit(getattr(nn, name)(*args, **kwargs), *inputs, **named)
            assert report.ok, [str(row) for row in report.refused]


@every_layer
def test_samples__bad_input_raises(name: str) -> None:
    info = INFOS[name]
    if info.module_error_inputs_func is None:
        return
    for error in info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    ):
        sample = error.module_error_input
        constructor, forward = sample.constructor_input, sample.forward_input
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            getattr(nn, name)(*constructor.args, **constructor.kwargs)(*forward.args, **forward.kwargs)
