"""Schedules: torch's classes, with correctly rounded cosines and powers; the same under `repdl.enable()`."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import repdl
from repdl.optim import SGD, lr_scheduler
from repdl.overrides.python_numbers import exact_math, power

Options = dict[str, Any]
SCHEDULES: list[tuple[str, Options]] = [
    ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95}),
    ("StepLR", {"step_size": 3, "gamma": 0.7}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.7}),
    ("ConstantLR", {"factor": 0.3}),
    ("LinearLR", {"start_factor": 0.3}),
    ("ExponentialLR", {"gamma": 0.93}),
    ("PolynomialLR", {"total_iters": 40, "power": 0.9}),
    ("CosineAnnealingLR", {"T_max": 33, "eta_min": 1e-4}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7, "T_mult": 2}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 60}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 60, "anneal_strategy": "linear", "three_phase": True}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 7}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 7, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 7, "mode": "exp_range", "gamma": 0.97}),
    *(
        ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 3, "step_size_down": 5, "mode": mode, **options})
        for mode in ("triangular", "triangular2", "exp_range")
        for options in (
            {"scale_fn": lambda x: 1 / (1 + x), "scale_mode": "iterations", "gamma": 0.9},
            {"scale_fn": lambda x: 0.5, "gamma": 0.9},
            {"cycle_momentum": False, "gamma": 0.9},
            {"base_momentum": 0.7, "max_momentum": 0.95, "gamma": 0.9},
        )
    ),
    ("ConstantLR", {"factor": 0.3, "total_iters": 12}),
    ("LinearLR", {"start_factor": 0.3, "end_factor": 0.8, "total_iters": 9}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7, "T_mult": 1, "eta_min": 1e-3}),
    ("OneCycleLR", {"max_lr": 0.5, "epochs": 6, "steps_per_epoch": 10, "pct_start": 0.2, "cycle_momentum": False}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 60, "div_factor": 7.0, "final_div_factor": 3.0, "max_momentum": 0.9}),
]
OTHERS = {"SequentialLR", "ChainedScheduler", "ReduceLROnPlateau", "LRScheduler"}
every = pytest.mark.parametrize(("name", "options"), SCHEDULES)


def optimizer(lr: float | torch.Tensor = 0.3) -> SGD:
    return SGD([torch.nn.Parameter(torch.zeros(2))], lr=lr, momentum=0.9)


def rates(make: Callable[[Any], Any], steps: int = 50, lr: float | torch.Tensor = 0.3) -> list[Any]:
    """Learning rates and momenta after each step; by the closed form after every seventh."""
    stepped = optimizer(lr)
    schedule = make(stepped)
    found = []
    for step in range(steps):
        stepped.step()
        has_form = hasattr(schedule, "_get_closed_form_lr") and step % 7 == 6
        schedule.step(step + 1) if has_form else schedule.step()
        found.append((copy.deepcopy(stepped.param_groups[0]["lr"]), stepped.param_groups[0]["momentum"]))
    assert all(type(x) in (float, torch.Tensor) for pair in found for x in pair)
    return found


def test_schedules__are_torchs() -> None:
    theirs = torch.optim.lr_scheduler
    assert set(lr_scheduler.__all__) == set(theirs.__all__) == {name for name, _ in SCHEDULES} | OTHERS
    for name in theirs.__all__:
        assert issubclass(getattr(lr_scheduler, name), getattr(theirs, name))


@every
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_schedule__rates_of_torchs_while_enabled(name: str, options: Options) -> None:
    ours = rates(lambda o: getattr(lr_scheduler, name)(o, **options))
    with repdl.enabled():
        assert rates(lambda o: getattr(torch.optim.lr_scheduler, name)(o, **options)) == ours
        assert rates(lambda o: getattr(lr_scheduler, name)(o, **options)) == ours
    plain = rates(lambda o: getattr(torch.optim.lr_scheduler, name)(o, **options))
    for (a, _), (b, _) in zip(ours, plain):
        assert abs(a - b) <= 200 * 2.0**-53  # of numbers below 1, some roundings a step
    if name != "OneCycleLR":
        assert rates(lambda o: getattr(lr_scheduler, name)(o, **options), 3, torch.tensor(0.3))


@every
def test_schedule__state_dicts_to_and_from_torch(name: str, options: Options) -> None:
    ours, theirs = getattr(lr_scheduler, name), getattr(torch.optim.lr_scheduler, name)
    stepped = optimizer()
    schedule = ours(stepped, **options)
    for _ in range(5):
        stepped.step()
        schedule.step()
    saved = pickle.loads(pickle.dumps({k: v for k, v in schedule.state_dict().items() if "lambda" not in k}))
    saved |= {k: v for k, v in schedule.state_dict().items() if "lambda" in k}
    held = optimizer()
    held.load_state_dict(stepped.state_dict())
    middle = theirs(held, **options)
    middle.load_state_dict(saved)
    other = optimizer()
    last = ours(other, **options)
    last.load_state_dict(middle.state_dict())
    other.load_state_dict(stepped.state_dict())
    for _ in range(5):
        for o, s in ((stepped, schedule), (other, last)):
            o.step()
            s.step()
        assert stepped.param_groups[0]["lr"] == other.param_groups[0]["lr"]


def test_powers__are_correctly_rounded() -> None:
    """Numbers that some C library rounds in another direction than to nearest."""
    for gamma, epoch in ((0.9, 3270), (0.99, 503), (0.999, 2904), (0.95, 482), (0.98, 688), (0.96, 246)):
        schedule = lr_scheduler.ExponentialLR(optimizer(1.0), gamma)
        schedule.last_epoch = epoch
        assert schedule._get_closed_form_lr() == [power(gamma, epoch)]  # type: ignore[attr-defined]
        cyclic = lr_scheduler.CyclicLR(optimizer(), 0.1, 0.2, mode="exp_range", gamma=gamma)
        assert cyclic.scale_fn(epoch) == power(gamma, epoch)
    for total in range(2, 400):
        schedule = lr_scheduler.PolynomialLR(optimizer(1.0), total, 0.9)
        schedule.last_epoch = total // 2
        assert schedule._get_closed_form_lr() == [power(1.0 - total // 2 / total, 0.9)]  # type: ignore[attr-defined]
        assert vars(schedule)["power"] == 0.9 and type(vars(schedule)["power"]) is float


def test_cosines__are_correctly_rounded() -> None:
    for total in range(3, 500):
        schedule = lr_scheduler.CosineAnnealingLR(optimizer(1.0), total)
        schedule.last_epoch = total // 3
        cosine = exact_math().cos(math.pi * (total // 3) / total)
        assert schedule._get_closed_form_lr() == [0 + (1.0 - 0) * (1 + cosine) / 2]  # type: ignore[attr-defined]


def test_schedules__of_schedules() -> None:
    def make(of: Any) -> Callable[[Any], Any]:
        return lambda o: of.SequentialLR(
            o, [of.LinearLR(o, 0.1, total_iters=5), of.CosineAnnealingLR(o, 20)], milestones=[5]
        )

    ours = rates(make(lr_scheduler), 20)
    with repdl.enabled():
        assert rates(make(torch.optim.lr_scheduler), 20) == ours


def test_torchs_classes_are_as_before_once_disabled() -> None:
    theirs = torch.optim.lr_scheduler
    before = {name: dict(vars(getattr(theirs, name))) for name in theirs.__all__}
    with repdl.enabled():
        assert vars(theirs.PolynomialLR)["get_lr"] is not before["PolynomialLR"]["get_lr"]
    assert {name: dict(vars(getattr(theirs, name))) for name in theirs.__all__} == before
