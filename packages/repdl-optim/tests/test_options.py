"""Optimizers with one or two options that are not the defaults, in float64: as plain torch, or refused as there."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import torch

import repdl
from repdl import optim

VALUES: dict[str, tuple[Any, ...]] = {
    "adjust_lr_fn": ("match_rms_adamw", "spectral_unclamped"),
    "alpha": (0.6,),
    "beta2_decay": (-0.4,),
    "betas": ((0.6, 0.8),),
    "d": (0.3,),
    "dampening": (0.4,),
    "eps": (1e-2,),
    "etas": ((0.3, 1.4),),
    "history_size": (1,),
    "initial_accumulator_value": (0.5,),
    "lambd": (0.1,),
    "line_search_fn": ("strong_wolfe",),
    "lr": (1.5,),
    "lr_decay": (0.3,),
    "max_eval": (2,),
    "max_iter": (3,),
    "momentum": (0.7,),
    "momentum_decay": (0.3,),
    "ns_coefficients": ((3.0, -4.0, 1.5),),
    "ns_steps": (2,),
    "rho": (0.5,),
    "step_sizes": ((0.01, 0.2),),
    "t0": (2.0,),
    "tolerance_change": (0.5,),
    "tolerance_grad": (0.5,),
    "weight_decay": (0.3,),
}
"""Option -> other values than the default."""

ONE_WAY = ("capturable", "differentiable", "foreach", "fused")
"""Options that choose how torch computes a step, and have tests of their own."""

OF_ONE = {"Adafactor": {"eps": ((1e-3, 2.0),)}, "Muon": {"eps": (10.0,)}}
"""Values for one optimizer, in place of those in VALUES."""

GIVEN = {"Muon": {"lr": 0.3}}
"""What is given besides, where the default moves the parameters too little."""

BOUNDS = {"Muon": 0.02}
"""Of the largest movement; torch's Muon computes in bfloat16."""
BOUND = 1e-9

NO_EFFECT = {
    "ASGD": {"t0"},  # of the averages
    **{name: {"decoupled_weight_decay"} for name in ("Adam", "NAdam", "RAdam")},
    "SGD": {"dampening"},  # of a momentum
}
"""Options that alone change no parameter."""
ENDLESS = {"maximize", "line_search_fn"}
"""A search for the largest value of what has none (LBFGS since torch 2.14)."""
STEPS = 6

# SparseAdam takes sparse gradients alone; test_sparse_adam.py has its options.
KINDS = {name: getattr(torch.optim, name, None) for name in optim.__all__}
NAMES = sorted(
    name for name, kind in KINDS.items() if inspect.isclass(kind) and name not in ("Optimizer", "SparseAdam")
)


def options_of(name: str) -> dict[str, tuple[Any, ...]]:
    found = {}
    for key, parameter in inspect.signature(getattr(torch.optim, name)).parameters.items():
        if parameter.default is parameter.empty or key in ONE_WAY:
            continue
        found[key] = (not parameter.default,) if isinstance(parameter.default, bool) else VALUES[key]
    return found | OF_ONE.get(name, {})


def changes(name: str) -> Iterator[dict[str, Any]]:
    single = [{key: value} for key, values in options_of(name).items() for value in values]
    yield from single
    yield from (a | b for a, b in combinations(single, 2) if a.keys().isdisjoint(b) and not {*a, *b} >= ENDLESS)


def trained(kind: Any, name: str, given: dict[str, Any], **way: Any) -> list[torch.Tensor] | str:
    """Parameters after some steps down quadratic functions, or the error of a construction."""
    shapes = [(3, 5), (6, 2)] if name == "Muon" else [(3, 5), (2, 3, 2), (7,), ()]
    params = [torch.linspace(-1, 1, torch.Size(s).numel(), dtype=torch.float64).reshape(s) for s in shapes]
    leaves = [torch.nn.Parameter(p + 0.1) for p in params]
    try:
        optimizer = kind(leaves, **given, **way)
    except ValueError as error:
        return str(error)
    draws = repdl.random.Generator(3)
    targets = [
        [repdl.random.randn(*shape, generator=draws, dtype=torch.float64) for shape in shapes] for _ in range(STEPS)
    ]
    for step in targets:

        def closure(step: list[torch.Tensor] = step) -> torch.Tensor:
            optimizer.zero_grad()
            with torch.enable_grad():
                loss = sum(((p - t) ** 2).sum() * 0.4 for p, t in zip(leaves, step))
            loss.backward()
            return loss

        optimizer.step(closure)
    return [leaf.detach() for leaf in leaves]


@pytest.mark.parametrize("name", NAMES)
def test_options__as_torch(name: str) -> None:
    """Every option changes torch's result by more than the bound within which ours is."""
    way = {"foreach": False} if "foreach" in inspect.signature(getattr(torch.optim, name)).parameters else {}
    theirs, always = getattr(torch.optim, name), GIVEN.get(name, {})
    start, default = trained(theirs, name, {"lr": 0.0}, **way), trained(theirs, name, always, **way)
    assert not isinstance(start, str) and not isinstance(default, str)
    largest = max(float((a - b).abs().max()) for a, b in zip(default, start))
    effect = {}
    for given in changes(name):
        exact = trained(theirs, name, always | given, **way)
        found = trained(getattr(optim, name), name, always | given)
        if isinstance(exact, str) or isinstance(found, str):
            assert found == exact, given
            continue
        moved = max(largest, *(float((a - b).abs().max()) for a, b in zip(exact, start)))
        error = max(float((a - b).abs().max()) for a, b in zip(found, exact))
        assert error <= BOUNDS.get(name, BOUND) * moved, (given, error, moved)
        if len(given) == 1:
            (key,) = given
            effect[key] = max(float((a - b).abs().max()) for a, b in zip(exact, default)) / moved
    without = {key for key, size in effect.items() if size <= 2 * BOUNDS.get(name, BOUND)}
    assert without == NO_EFFECT.get(name, set()) & effect.keys()  # an older torch lacks some
    assert len(effect) >= 4
