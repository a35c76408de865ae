"""What the tests of every optimizer need: parameters, gradients and steps of exact bits."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

SHAPES: list[tuple[int, ...]] = [(7, 11), (3,), (), (0, 2), (2, 3, 3, 3)]


def parameters(shapes: Sequence[tuple[int, ...]] = SHAPES) -> list[torch.nn.Parameter]:
    """A parameter of each shape, always the same ones."""
    return [torch.nn.Parameter(uniform(i, *shape)) for i, shape in enumerate(shapes)]


def set_grads(params: Sequence[torch.nn.Parameter], step: int) -> list[torch.Tensor]:
    """Give each parameter the gradient of that step: of its position and shape only."""
    grads = [uniform(1000 * (step + 1) + i, *param.shape) for i, param in enumerate(params)]
    for param, grad in zip(params, grads):
        param.grad = grad
    return grads


def train(optimizer: torch.optim.Optimizer, params: Sequence[torch.nn.Parameter], steps: Iterable[int]) -> None:
    """Take the steps of those numbers."""
    for step in steps:
        set_grads(params, step)
        optimizer.step()


def snapshot(optimizer: torch.optim.Optimizer, params: Sequence[torch.nn.Parameter]) -> list[Any]:
    """Copies of everything that a step may change."""
    return [copy.deepcopy([p.detach() for p in params]), copy.deepcopy(optimizer.state_dict())]


def assert_same_state(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    """State dicts of the same keys, dtypes, shapes and bits, options included."""
    assert actual.keys() == expected.keys()
    assert actual["param_groups"] == expected["param_groups"]
    assert actual["state"].keys() == expected["state"].keys()
    for index, entries in expected["state"].items():
        assert set(actual["state"][index]) == set(entries)
        for key, value in entries.items():
            if isinstance(value, torch.Tensor):
                assert_same_bits(actual["state"][index][key], value, f"state[{index}][{key}]")
            else:
                assert actual["state"][index][key] == value, f"state[{index}][{key}]"
