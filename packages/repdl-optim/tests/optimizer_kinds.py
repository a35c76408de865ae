"""The optimizers whose step is one op, and what their tests need to know of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch

from repdl import optim

Options = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """An optimizer, and what its tests need to know of it.

    Args:
        combined: option -> several values; all combinations are tried.
        full: options with which there is all of the state.
        refused: options that torch refuses, too.
        needs: option -> its value, and the state that a step then needs; without it the step needs none.
        outside: options that are outside of the contract.
        begun: whether there is a state before the first step.
        weight_decay: whether it has one.
    """

    name: str
    combined: dict[str, tuple[Any, ...]]
    full: Options
    refused: list[Options]
    needs: dict[str, tuple[Any, str]] = field(default_factory=dict)
    outside: tuple[str, ...] = ("differentiable", "capturable")
    begun: bool = False
    weight_decay: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def ours(self) -> Callable[..., Any]:
        return getattr(optim, self.name)

    @property
    def theirs(self) -> Callable[..., Any]:
        return getattr(torch.optim, self.name)

    @property
    def options(self) -> Iterator[Options]:
        for values in product(*self.combined.values()):
            options = {k: v for names, value in zip(self.combined, values) for k, v in _named(names, value)}
            yield {"lr": 0.1, **options}

    @property
    def counts(self) -> bool:
        """Whether the state has the number of steps."""
        return self.name != "SGD"

    @property
    def same_groups(self) -> bool:
        """Whether this torch's state dicts say all: those of its older Adam not whether decay is decoupled."""
        return self.name != "Adam" or "decoupled_weight_decay" in inspect.signature(torch.optim.Adam).parameters


def _named(names: str, value: Any) -> list[tuple[str, Any]]:
    """Of "weight_decay decoupled_weight_decay" and a pair, each with its value."""
    return list(zip(names.split(), value)) if " " in names else [(names, value)]


BOTH = (False, True)
BETAS = [{"lr": -0.1}, {"eps": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"weight_decay": -1.0}]
KINDS = [
    Kind(
        "SGD",
        {
            "weight_decay": (0.0, 0.01),
            "momentum dampening nesterov": ((0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.5, False), (0.9, 0.0, True)),
            "maximize": BOTH,
        },
        {"momentum": 0.9, "dampening": 0.5},
        [
            *({"lr": -0.1}, {"momentum": -0.9}, {"weight_decay": -1.0}, {"nesterov": True}),
            {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
        ],
        outside=("differentiable",),
    ),
    Kind(
        "Adam",
        {
            "weight_decay decoupled_weight_decay": ((0.0, False), (0.01, False), (0.01, True)),
            "amsgrad": BOTH,
            "maximize": BOTH,
        },
        {"amsgrad": True},
        BETAS,
        {"amsgrad": (True, "max_exp_avg_sq")},
    ),
    Kind(
        "AdamW",
        {"weight_decay": (0.0, 0.3), "amsgrad": BOTH},
        {"amsgrad": True},
        BETAS,
        {"amsgrad": (True, "max_exp_avg_sq")},
    ),
    Kind(
        "RMSprop",
        {"weight_decay": (0.0, 0.01), "momentum": (0.0, 0.9), "centered": BOTH, "maximize": BOTH},
        {"momentum": 0.9, "centered": True},
        [{option: -0.5} for option in ("lr", "alpha", "eps", "weight_decay", "momentum")],
        {"centered": (True, "grad_avg"), "momentum": (0.9, "momentum_buffer")},
    ),
    Kind(
        "Adagrad",
        {
            "weight_decay": (0.0, 0.01),
            "lr_decay": (0.0, 0.5),
            "initial_accumulator_value": (0.0, 0.25),
            "maximize": BOTH,
        },
        {"lr_decay": 0.5},
        [{option: -0.5} for option in ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")],
        outside=("differentiable",),
        begun=True,
    ),
    Kind(
        "Adadelta",
        {"weight_decay": (0.0, 0.01), "rho": (0.9, 0.5), "maximize": BOTH},
        {"rho": 0.5},
        [{option: -0.5} for option in ("lr", "rho", "eps", "weight_decay")],
    ),
    Kind("Adamax", {"weight_decay": (0.0, 0.01), "maximize": BOTH}, {"betas": (0.8, 0.9)}, BETAS),
    Kind(
        "ASGD",
        {"weight_decay": (0.0, 0.01), "lambd": (1e-4, 0.5), "t0": (1e6, 1), "maximize": BOTH},
        {"t0": 1, "alpha": 0.6},
        [{option: -0.5} for option in ("lr", "weight_decay")],
    ),
    Kind(
        "NAdam",
        {
            "weight_decay decoupled_weight_decay": ((0.0, False), (0.01, False), (0.01, True)),
            "momentum_decay": (4e-3, 0.5),
            "maximize": BOTH,
        },
        {"betas": (0.8, 0.9)},
        [*BETAS, {"momentum_decay": -1.0}],
    ),
    Kind(
        "RAdam",
        {
            "weight_decay decoupled_weight_decay": ((0.0, False), (0.01, False), (0.01, True)),
            "betas": ((0.9, 0.999), (0.5, 0.95)),
            "maximize": BOTH,
        },
        {"betas": (0.8, 0.9)},
        BETAS,
    ),
    Kind(
        "Rprop",
        {"etas": ((0.5, 1.2), (0.25, 2.0)), "step_sizes": ((1e-6, 50), (0.09, 0.11)), "maximize": BOTH},
        {"etas": (0.25, 2.0)},
        [{"lr": -0.1}, {"etas": (1.0, 2.0)}, {"etas": (0.5, 1.0)}],
        weight_decay=False,
    ),
]
