"""Models whose first calls are checked, and what the tests of that ask about them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
import torch.nn.functional as F
from torch.overrides import _get_current_function_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode

import repdl
from repdl.errors import UnsupportedError
from repdl.nn.first_calls import FirstCalls

x = torch.linspace(-2, 2, 16).view(4, 4)


class Model(torch.nn.Module):
    """A layer, and what a function makes of the result."""

    def __init__(self, own: Callable[[Model, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.act, self.own = torch.nn.Linear(4, 4), torch.nn.ReLU(), own

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


def converted(own: Callable[[Model, torch.Tensor], Any], strict: bool = True) -> Model:
    return repdl.from_torch_module(Model(own), strict=strict)


def check_of(model: torch.nn.Module) -> FirstCalls:
    (check,) = {hook.__self__ for hook in model._forward_pre_hooks.values()}
    assert isinstance(check, FirstCalls)
    return check


def finished(model: torch.nn.Module) -> set[tuple[bool, bool]]:
    """The modes of the calls whose check is over: training or not, gradients enabled or not."""
    return {(kind[0], kind[1]) for kind in check_of(model)._finished}


def step(model: torch.nn.Module) -> None:
    output = model(x)
    output.backward(torch.ones_like(output))


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(UnsupportedError) as caught:
        call()
    assert _get_current_dispatch_mode() is None and _get_current_function_mode() is None
    return str(caught.value)


def line_of(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (number,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"{Path(inspect.getfile(function)).name}:{number} `"
