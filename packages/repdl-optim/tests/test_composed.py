"""Adafactor, Muon and LBFGS: torch's bits under `repdl.enable()`, torch's state dicts, and steps that happen whole."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import pytest
import torch
from test_optim_enable import INFOS

import repdl
from repdl import ops, optim
from repdl.errors import DTypeError, ShapeError, UnsupportedError
from repdl.optim.testing import assert_same_state, parameters, snapshot
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

NAMES = [name for name in ("Adafactor", "LBFGS", "Muon") if hasattr(torch.optim, name)]
Step = Callable[[], Any]
every = pytest.mark.parametrize("name", NAMES)


def shapes(name: str) -> list[tuple[int, ...]]:
    return [(3, 5), (40, 20), (5, 70)] if name == "Muon" else [(3, 5), (4, 2), (7,), (), (2, 3, 4)]


def closure(params: list[torch.nn.Parameter], seed: int) -> Step:
    """A quadratic function with its gradients, by ops of RepDL."""

    def loss() -> torch.Tensor:
        total = torch.zeros((), dtype=params[0].dtype)
        for number, param in enumerate(params):
            p, c = param.detach(), uniform(100 * seed + number, *param.shape).to(param.dtype)
            param.grad = ops.add(ops.mul(p, 0.3), c, alpha=0.1)
            total = ops.add(total, ops.sum(ops.mul(p, ops.add(ops.mul(p, 0.15), c, alpha=0.1))))
        return total

    return loss


def train(optimizer: torch.optim.Optimizer, params: list[torch.nn.Parameter], steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        loss = closure(params, step)
        if not isinstance(optimizer, torch.optim.LBFGS):
            loss()
        optimizer.step(loss)


def state(optimizer: torch.optim.Optimizer, params: list[torch.nn.Parameter]) -> list[Any]:
    found: list[Any] = [p.detach().clone() for p in params]
    for param in params:
        for _, value in sorted(optimizer.state[param].items()):
            found += [torch.as_tensor(v) for v in (value if isinstance(value, list) else [value]) if v is not None]
    return found


def inputs(name: str) -> list[dict[str, Any]]:
    found = [sample.kwargs for sample in INFOS[name].optim_inputs_func("cpu")]
    found += [{"line_search_fn": "strong_wolfe"}, {"history_size": 2}] if name == "LBFGS" else []
    found += [{"eps": (1e-5, 1e-2), "foreach": True}] if name == "Adafactor" else []
    found += [{"adjust_lr_fn": "match_rms_adamw"}, {"nesterov": False}] if name == "Muon" else []
    return [given for given in found if not isinstance(given.get("lr"), torch.Tensor)]


@every
def test_composed__bits_of_torchs_with_each_of_its_options(name: str) -> None:
    every_option = [*product((torch.float32, torch.float64), inputs(name))]
    plain = [(dtype, given) for dtype, given in every_option if not given and dtype is torch.float32]
    expected: dict[str, Any] = {}
    for module, within, options in (
        (torch.optim, repdl.enabled(), every_option),
        (optim, nullcontext(), every_option),
        (optim, repdl.enabled(), every_option),
        (optim, repdl.use_backend("reference"), plain),  # which takes seconds
    ):
        with within:
            for dtype, given in options:
                params = [torch.nn.Parameter(p.detach().to(dtype)) for p in parameters(shapes(name))]
                optimizer = getattr(module, name)(params, **given)
                train(optimizer, params, 4)
                found = state(optimizer, params)
                assert_same_bits(found, expected.setdefault(f"{dtype}, {given}", found), f"{dtype}, {given}")
    assert plain


@every
def test_composed__state_dicts_to_and_from_torch(name: str) -> None:
    ours, theirs = getattr(optim, name), getattr(torch.optim, name)
    whole = parameters(shapes(name))
    uninterrupted = ours(whole, lr=0.1)
    train(uninterrupted, whole, 4)
    params = parameters(shapes(name))
    first = ours(params, lr=0.1)
    train(first, params, 2)
    second = theirs(params)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    third = ours(params)
    third.load_state_dict(copy.deepcopy(second.state_dict()))
    train(third, params, 2, first=2)
    assert_same_bits(state(third, params), state(uninterrupted, whole))
    other = parameters(shapes(name))
    train(theirs(other, lr=0.1), other, 1)
    assert isinstance(third, theirs) and ours(whole).defaults == theirs(other).defaults


@every
def test_composed__refuses(name: str) -> None:
    kind = getattr(optim, name)
    with pytest.raises(ValueError) as error:
        getattr(torch.optim, name)(parameters(shapes(name)), lr=-1.0)
    with pytest.raises(ValueError, match=str(error.value)):
        kind(parameters(shapes(name)), lr=-1.0)
    with pytest.raises(DTypeError, match=rf"{name}: params\[0\].dtype"):
        kind([torch.nn.Parameter(torch.ones(2, 2, dtype=torch.float16))])
    params = parameters([(2, 2)])
    optimizer = kind(params)
    params[0].grad = torch.eye(2).to_sparse()
    with pytest.raises(UnsupportedError, match="sparse"):
        optimizer.step(lambda: torch.zeros(()))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "LBFGS"])
def test_composed__error_changes_nothing(name: str) -> None:
    def sparse(params: list[torch.nn.Parameter]) -> None:
        params[1].grad = torch.eye(2).to_sparse()

    def expanded(params: list[torch.nn.Parameter]) -> None:
        params[1].data = torch.zeros(1).expand(2, 2)

    def shared(params: list[torch.nn.Parameter]) -> None:
        params[1].data = params[0].data[:2, :2].as_strided((2, 2), (2, 1))

    for spoil, error in ((sparse, UnsupportedError), (expanded, UnsupportedError), (shared, ShapeError)):
        params = parameters([(3, 3), (2, 2)])
        optimizer = getattr(optim, name)(params)
        train(optimizer, params, 1)
        closure(params, 1)()
        spoil(params)
        before = snapshot(optimizer, params)
        with pytest.raises(error):
            optimizer.step()
        assert_same_bits([p.detach() for p in params], before[0], name)
        assert_same_state(optimizer.state_dict(), before[1])


@pytest.mark.skipif("Muon" not in NAMES, reason="needs a newer torch")
def test_muon__learning_rate_as_a_tensor() -> None:
    found = []
    for lr in (0.25, torch.tensor(0.25)):
        params = parameters(shapes("Muon"))
        train(optim.Muon(params, lr=lr), params, 3)
        found.append(params)
    assert_same_bits(found[0], found[1])


def test_lbfgs__hooks_are_called_once_and_the_closure_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not torch's class has been made before, which puts hooks into its step, and Dynamo wrapped that."""
    for times in range(3):
        if times == 2:
            monkeypatch.setattr(torch.optim.LBFGS, "step", torch._dynamo.disable(torch.optim.LBFGS.step))
        params, called = parameters([(3,)]), []
        optimizer = optim.LBFGS(params, max_iter=2)
        optimizer.register_step_pre_hook(lambda *_, called=called: called.append("pre"))

        def loss(params: Any = params) -> torch.Tensor:
            optimizer.zero_grad()
            value = torch.linalg.det(torch.eye(2) * params[0].sum())  # which RepDL refuses
            value.backward()
            return value

        optimizer.step(loss)
        assert called == ["pre"]
        torch.optim.LBFGS(parameters([(3,)]))
