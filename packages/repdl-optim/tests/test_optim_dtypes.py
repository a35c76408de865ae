"""Optimizers on float64 parameters: torch's steps but for the last bits; halves are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from repdl.errors import DTypeError
from repdl.optim import SGD, Adam, RMSprop
from repdl.testing import assert_same_bits, uniform

OPTIONS: list[tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = [
    (SGD, torch.optim.SGD, {"lr": 0.1}),
    (SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (Adam, torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.01, "amsgrad": True}),
    (Adam, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.01}),
    (RMSprop, torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "eps": 0.5, "centered": True}),
]


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_float64__torchs_steps(number: int) -> None:
    ours, theirs, options = OPTIONS[number]
    mine = [torch.nn.Parameter(uniform(s, 3, 5).double() * (1 + 2.0**-40)) for s in (1, 2)]
    other = [torch.nn.Parameter(p.detach().clone()) for p in mine]
    extra = {"decoupled_weight_decay": True} if theirs is torch.optim.AdamW else {}
    a, b = ours(mine, **options, **extra), theirs(other, **options)
    for step in range(4):
        for group in (mine, other):
            for seed, p in enumerate(group):
                p.grad = uniform(10 * step + seed, 3, 5).double() * (1 - 2.0**-40)
        a.step()
        b.step()
    for p, q in zip(mine, other):
        assert p.dtype is torch.float64
        # About ten roundings a step, relative to numbers below 2.
        assert (p - q).abs().max() <= 4 * 16 * 2.0**-53


@pytest.mark.parametrize("optimizer", [SGD, Adam, RMSprop])
def test_float64__beside_float32_in_one_group(optimizer: Callable[..., Any]) -> None:
    def trained(dtypes: list[torch.dtype]) -> list[torch.Tensor]:
        params = [torch.nn.Parameter(uniform(s, 4).to(d)) for s, d in enumerate(dtypes)]
        chosen = optimizer(params, lr=0.1)
        for seed, p in enumerate(params):
            p.grad = uniform(5 + seed, 4).to(p.dtype)
        chosen.step()
        return [p.detach() for p in params]

    single, double = torch.float32, torch.float64
    mixed, left, right = trained([single, double]), trained([single, single]), trained([double, double])
    assert_same_bits(mixed, [left[0], right[1]])


@pytest.mark.parametrize("optimizer", [SGD, Adam, RMSprop])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves__are_refused(optimizer: Callable[..., Any], dtype: torch.dtype) -> None:
    with pytest.raises(DTypeError, match=r"params\[0\].dtype is .*float16, expected float32 or float64"):
        optimizer([torch.nn.Parameter(torch.ones(2, dtype=dtype))], lr=0.1)
