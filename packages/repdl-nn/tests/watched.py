"""Models that call functions of torch, converted, and the same under `repdl.enable()`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl.errors import UnsupportedError
from repdl.overrides.torchs import is_within

x = torch.linspace(-2, 2, 16).view(4, 4)


class Model(torch.nn.Module):
    """A layer, and what a function makes of the result."""

    def __init__(self, own: Callable[[Model, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.act, self.own = torch.nn.Linear(4, 4), torch.nn.ReLU(), own
        for parameter in self.parameters():
            parameter.data = (torch.arange(parameter.numel()) * 7 % 11 - 5).view_as(parameter) / 16

    def forward(self, x: torch.Tensor) -> Any:
        return self.own(self, self.layer(x))


class Outer(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(inner)

    def forward(self, x: torch.Tensor) -> Any:
        return self.blocks(x)


def fine(model: Model, q: torch.Tensor) -> torch.Tensor:
    return model.act(q) + q


def products(model: Model, q: torch.Tensor) -> torch.Tensor:
    scores = q @ q.T
    return F.softmax(scores, -1)


def mean(model: Model, q: torch.Tensor) -> torch.Tensor:
    return q.mean()


def dropout(model: Model, q: torch.Tensor) -> torch.Tensor:
    return F.dropout(q, 0.5, model.training)


def scaled(model: Model, q: torch.Tensor) -> torch.Tensor:
    return q * model.layer.bias


def refused(model: Model, q: torch.Tensor) -> torch.Tensor:
    return torch.linalg.svdvals(q)


def converted(own: Callable[[Model, torch.Tensor], Any], strict: bool = True) -> Model:
    return repdl.from_torch_module(Model(own), strict=strict)


def step(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What a call and its backward pass give."""
    model.zero_grad()
    output = model(x)
    output.backward((torch.arange(output.numel()) % 7 - 3).view_as(output) / 8)
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return {"output": output.detach(), **grads}


def is_same(
    own: Callable[[Model, torch.Tensor], Any], of: Callable[..., torch.nn.Module] = lambda model: model
) -> bool:
    """Whether a converted model has the bits, forward and backward, that it has as it is under `repdl.enable()`."""
    model, plain = repdl.from_torch_module(of(Model(own))), of(Model(own))
    repdl.random.manual_seed(3)
    found = repdl.digest(step(model))
    assert not is_within()
    with repdl.enabled():
        torch.manual_seed(3)
        return found == repdl.digest(step(plain))


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(UnsupportedError) as caught:
        call()
    assert not is_within()
    return str(caught.value)


def line_of(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (number,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"{Path(inspect.getfile(function)).name}:{number} `"
