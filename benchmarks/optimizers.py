"""A step of each optimizer: repdl.optim against torch's fused step, or where there is none its step on lists.

python benchmarks/optimizers.py --threads 2                          # ten parameters of a million elements
python benchmarks/optimizers.py --threads 1 --only Adam,SGD --parameters 400 --elements 64
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import turns

import repdl.optim

WAYS: dict[str, dict[str, Any]] = {
    "Adadelta": {"foreach": True},
    "Adagrad": {"fused": True},
    "Adam": {"fused": True},
    "AdamW": {"fused": True},
    "Adamax": {"foreach": True},
    "ASGD": {"foreach": True},
    "NAdam": {"foreach": True},
    "RAdam": {"foreach": True},
    "RMSprop": {"foreach": True},
    "Rprop": {"foreach": True},
    "SGD": {"fused": True, "momentum": 0.9},
}
"""Optimizer -> torch's fastest way of a step on a CPU, and options of both."""


def step(optimizer: Callable[..., Any], sizes: argparse.Namespace, **options: Any) -> turns.Call:
    parameters = [torch.nn.Parameter(torch.randn(sizes.elements)) for _ in range(sizes.parameters)]
    for parameter in parameters:
        parameter.grad = torch.randn(sizes.elements)
    call: turns.Call = optimizer(parameters, lr=1e-6, **options).step
    return call


def main() -> None:
    sizes = argparse.ArgumentParser(add_help=False)
    sizes.add_argument("--parameters", type=int, default=10)
    sizes.add_argument("--elements", type=int, default=1_000_000, help="of a parameter")
    args = turns.arguments(__doc__, WAYS, [sizes])
    for name in args.only.split(","):
        way = {key: value for key, value in WAYS[name].items() if key in ("fused", "foreach")}
        options = {key: value for key, value in WAYS[name].items() if key not in way}
        ours, theirs = (getattr(module, name) for module in (repdl.optim, torch.optim))
        calls = {"repdl": step(ours, args, **options), "torch": step(theirs, args, **options, **way)}
        turns.compare(f"{name}, torch's {next(iter(way))}", calls, args)


if __name__ == "__main__":
    main()
