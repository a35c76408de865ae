"""A converted LeNet: close to torch, the same bits under torch.compile and any number of threads."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

import repdl
from repdl import nn


def _lenet() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 16, 5),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(400, 120),
        torch.nn.ReLU(),
        torch.nn.Linear(120, 84),
        torch.nn.ReLU(),
        torch.nn.Linear(84, 10),
    )


def _step(
    model: torch.nn.Module, forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> list[torch.Tensor]:
    """Logits, loss and gradients of the parameters and of the input."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    logits = forward(x)
    loss = nn.CrossEntropyLoss()(logits, torch.arange(len(x)) % 10)
    loss.backward()
    grads = [tensor.grad for tensor in (x, *model.parameters())]
    return [logits.detach(), loss.detach(), *(grad.clone() for grad in grads if grad is not None)]


@pytest.mark.parametrize("contract", [None, "v1", "sequential"])
def test_lenet__compiled_has_the_same_bits(contract, uniform):
    model, x = repdl.from_torch_module(_lenet(), contract=contract), uniform(3, 1, 28, 28)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    eager = _step(model, model, x)
    for a, b in zip(_step(model, compiled, x), eager, strict=True):
        assert torch.equal(a, b)


def test_lenet__compiled_follows_the_process_wide_contract(uniform):
    model, x = repdl.from_torch_module(_lenet()), uniform(3, 1, 28, 28)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for contract in ("v1", "sequential", "v1"):
        with repdl.use_contract(contract):
            eager = _step(model, model, x)
            assert all(torch.equal(a, b) for a, b in zip(_step(model, compiled, x), eager, strict=True))


def test_lenet__close_to_torch_in_float64(uniform):
    # 400 terms of at most 1 in the longest dot product, through five layers whose weights
    # shrink errors (uniform in 1 / sqrt(fan_in)): 5 * 400 roundings of values of at most 4.
    tolerance = 5 * 400 * 4 * 2.0**-24
    source, x = _lenet(), uniform(3, 1, 28, 28)
    ours = _step(converted := repdl.from_torch_module(source), converted, x)
    exact = copy.deepcopy(source).double()
    logits = exact(y := x.double().requires_grad_())
    torch.nn.functional.cross_entropy(logits, torch.arange(3)).backward()
    theirs = [logits, y.grad, *(p.grad for p in exact.parameters())]
    for a, b in zip([ours[0], *ours[2:]], theirs, strict=True):
        assert (a.double() - b).abs().max() <= tolerance


def test_lenet__thread_counts(uniform):
    model, x = repdl.from_torch_module(_lenet()), uniform(5, 1, 28, 28)
    before, results = repdl.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            repdl.set_num_threads(threads)
            results.append(_step(model, model, x))
    finally:
        repdl.set_num_threads(before)
    for result in results:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


def test_lenet__training_in_torch_and_in_repdl_share_state_dicts():
    source = _lenet()
    converted = repdl.from_torch_module(source)
    source.load_state_dict(converted.state_dict())
    converted.load_state_dict(source.state_dict())
    assert repdl.digest(converted) == repdl.digest(source)
