"""torch's optimizers under `repdl.enable()` have the bits of RepDL's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import UnsupportedError

CASES: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {"lr": 0.1, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9, "centered": True}),
]


def values(*shape: int) -> torch.Tensor:
    return repdl.random.randn(*shape, generator=repdl.random.Generator(7))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("way", ["single", "foreach", "fused"])
def test_enable__optimizers(name: str, options: dict[str, Any], way: str) -> None:
    if way == "fused" and name == "RMSprop":
        pytest.skip("torch has none")
    flags = {"foreach": way == "foreach"} | ({} if name == "RMSprop" else {"fused": way == "fused"})
    ours, theirs = ([t.clone().requires_grad_() for t in (values(3, 5), values(7))] for _ in range(2))
    optimizers = getattr(repdl.optim, name)(ours, **options), getattr(torch.optim, name)(theirs, **flags, **options)
    with repdl.enabled():
        for _ in range(3):
            for parameters, optimizer in zip((ours, theirs), optimizers):
                for parameter in parameters:
                    parameter.grad = ops.mul(parameter.detach(), 0.3)
                optimizer.step()
    assert all(map(same, (p.detach() for p in ours), (p.detach() for p in theirs)))


def test_enable__scaled_gradients_of_a_fused_step() -> None:
    found = []
    for fused in (False, True):
        weight = values(5).requires_grad_()
        optimizer = torch.optim.Adam([weight], lr=0.5, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        with repdl.enabled():
            for factor in (0.5, 1e38, 0.25, 0.125):
                optimizer.zero_grad()
                scaler.scale((weight * factor).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
        found.append((weight.detach(), scaler.get_scale()))
    assert same(found[0][0], found[1][0]) and found[0][1] == found[1][1]


def test_enable__refuses_a_fused_step_that_repdl_has_not() -> None:
    weight = values(5).requires_grad_()
    optimizer = torch.optim.Adagrad([weight], fused=True)
    before, weight.grad = weight.detach().clone(), torch.ones(5)
    with repdl.enabled(), pytest.raises(UnsupportedError, match=r"_fused_adagrad.*test_optim_enable.py:\d+ "):
        optimizer.step()
    assert same(weight.detach(), before)
