"""Training under torch.compile: no error, and the bits of the same training without it.

The ordinary tests take a sample; `-m nightly` runs every combination.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch

import repdl
from repdl.testing import processes, uniform

SIZES = (4, 1, 40, 7, 2)
"""Batch sizes that change from step to step."""

MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "lenet": lambda: torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5),
        torch.nn.BatchNorm2d(6),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 16, 5),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    ),
    "mlp": lambda: torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)),
}
SHAPES = {"lenet": (1, 28, 28), "mlp": (20,)}
SMOOTHING = {"lenet": 0.0, "mlp": 0.1}

EVERY = list(
    itertools.product(
        MODELS,
        ("SGD", "Adam", "RMSprop"),
        ("eager", "aot_eager", "inductor", "repdl"),
        (False, True, None),
        ("model", "step"),
    )
)
SAMPLE = {
    ("lenet", "SGD", "eager", True, "step"),
    ("lenet", "Adam", "aot_eager", True, "model"),
    ("mlp", "SGD", "aot_eager", False, "step"),
    ("mlp", "Adam", "aot_eager", None, "step"),
    ("mlp", "Adam", "inductor", True, "step"),
    ("mlp", "RMSprop", "aot_eager", True, "step"),
    ("lenet", "Adam", "repdl", None, "model"),
    ("mlp", "SGD", "repdl", True, "step"),
}


def train(model: str, optimizer: str, wrap: Callable[[Any], Any], what: str) -> tuple[str, str, list[float]]:
    """Digests of model and optimizer, and the losses; `wrap` goes around the model or the whole step."""
    net = MODELS[model]()
    for i, parameter in enumerate(net.parameters()):
        parameter.data = uniform(i, *parameter.shape) * 0.1
    net = repdl.from_torch_module(net)
    rule = getattr(repdl.optim, optimizer)(net.parameters(), lr=0.01)
    forward = wrap(net) if what == "model" else net

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rule.zero_grad()
        loss = repdl.nn.functional.cross_entropy(forward(x), y, label_smoothing=SMOOTHING[model])
        loss.backward()
        rule.step()
        return loss

    run = wrap(step) if what == "step" else step
    losses = [run(uniform(n, n, *SHAPES[model]), torch.arange(n) % 10).item() for n in SIZES]
    return repdl.digest(net), repdl.digest(rule.state_dict()), losses


@cache
def expected(model: str, optimizer: str) -> tuple[str, str, list[float]]:
    return train(model, optimizer, lambda f: f, "step")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "optimizer", "backend", "dynamic", "what"),
    [pytest.param(*one, marks=[] if one in SAMPLE else pytest.mark.nightly) for one in EVERY],
)
def test_compile__trains_to_the_same_bits(
    model: str, optimizer: str, backend: str, dynamic: bool | None, what: str
) -> None:
    def wrap(f: Any) -> Any:
        return torch.compile(f, backend=backend, dynamic=dynamic)

    assert train(model, optimizer, wrap, what) == expected(model, optimizer)


def test_compile__a_converted_model_is_refused_in_its_graph() -> None:
    """By the backend "repdl", which needs no call before, and does not warn."""

    class Model(torch.nn.Module):
        def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.layer, self.function = torch.nn.Linear(3, 3), function

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(self.layer(x))

    x = uniform(1, 4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = repdl.from_torch_module(Model(lambda y: repdl.ops.softmax(y, 1) + 1))
        found = torch.compile(model, backend="repdl", fullgraph=True)(x)
        refused = repdl.from_torch_module(torch.nn.Sequential(Model(lambda y: y.softmax(1))))
        with pytest.raises(repdl.errors.UnsupportedError) as raised:
            torch.compile(refused, backend="repdl", fullgraph=True)(x)
    assert torch.equal(found, model(x))
    assert "aten._softmax.default in 0, " in str(raised.value) and str(raised.value).endswith("use repdl.ops.softmax")


def test_compile__memory_of_temporaries() -> None:
    """Dynamo once traced glue code, and freed copies whose addresses a kernel had already taken."""
    code = """
        import torch, repdl
        from repdl.testing import uniform
        compiled = torch.compile(lambda x, y: repdl.ops.cross_entropy(x, y), dynamic=True, backend="eager")
        for n in (64, 65, 71, 80, 93):
            x, y = uniform(n, 10, n).t().requires_grad_(), torch.arange(n) % 10
            loss = compiled(x, y)
            (grad,) = torch.autograd.grad(loss, x)
            wanted = repdl.ops.cross_entropy(x, y)
            (wanted_grad,) = torch.autograd.grad(wanted, x)
            assert torch.equal(loss, wanted) and torch.equal(grad, wanted_grad), n
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in code.splitlines())],
        env={**os.environ, "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.filterwarnings("ignore")
def test_compile__a_graph_break_between_ops() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = repdl.ops.mm(x.t(), x)
        torch._dynamo.graph_break()
        return repdl.ops.sum(repdl.ops.softmax(repdl.ops.add(y, y.t(), alpha=0.5), 1), 0)

    compiled = torch.compile(function, backend="eager", dynamic=True)
    for n in (5, 9, 12):
        assert torch.equal(compiled(uniform(n, n, 7)), function(uniform(n, n, 7)))


LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "cross_entropy": lambda x, y: repdl.ops.cross_entropy(x, y),
    "smoothed": lambda x, y: repdl.ops.cross_entropy(x, y, label_smoothing=0.1),
    "nll_loss": lambda x, y: repdl.ops.nll_loss(repdl.ops.log_softmax(x, 1), y),
    "mean": lambda x, y: repdl.ops.mean(repdl.ops.add(x, repdl.ops.mul(x, 2.5), alpha=0.3)),
    "batch_norm": lambda x, y: repdl.ops.sum(repdl.ops.batch_norm(x, None, None, training=True, eps=1e-3)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_compile__dynamic_fullgraph(name: str) -> None:
    """No check of a public function breaks the graph, also where sizes are symbolic."""
    compiled = torch.compile(LOSSES[name], backend="aot_eager", dynamic=True, fullgraph=True)
    for n in (5, 9):
        x, y = uniform(n, n, 10).requires_grad_(), torch.arange(n) % 10
        loss, wanted = compiled(x, y), LOSSES[name](x, y)
        assert torch.equal(loss, wanted)
        assert torch.equal(*(torch.autograd.grad(value, x)[0] for value in (loss, wanted)))


@pytest.mark.filterwarnings("ignore")
def test_compile__follows_the_contract_of_the_caller() -> None:
    """Compiled code is guarded on the scope that it is called in."""
    x = uniform(1, 1, 4097)
    compiled = torch.compile(lambda x: repdl.ops.sum(x), backend="eager", fullgraph=True)
    wanted = {name: repdl.ops.sum(x, contract=name) for name in ("v1", "sequential")}
    assert not torch.equal(wanted["v1"], wanted["sequential"])
    for name in ("v1", "sequential", "v1", "sequential"):
        with repdl.use_contract(name):
            assert torch.equal(compiled(x), wanted[name]), name
    assert torch.equal(compiled(x), wanted["v1"])


SECOND_CALL = """
import torch
from repdl import ops

add = torch.compile(lambda t: ops.add(t, 2.0), backend="eager", fullgraph=True)
print(add(torch.ones(2)).tolist(), add(torch.zeros(2)).tolist())
"""


def test_compile__a_second_call_of_a_function_that_was_compiled_first() -> None:
    """Nothing of RepDL has run before, so what it keeps for the thread is made while Dynamo looks."""
    done = processes.python("-c", SECOND_CALL)
    assert done.stdout == "[3.0, 3.0] [2.0, 2.0]\n", done.stderr
