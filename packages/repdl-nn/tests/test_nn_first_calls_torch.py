"""The check of a converted model's first calls in torch's other ways to call a model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch.utils.checkpoint import checkpoint

import repdl
from watched import (
    Model,
    check_of,
    converted,
    fine,
    finished,
    line_of,
    products,
    refusal,
    scaled,
    step,
    x,
)


@pytest.mark.parametrize("reentrant", [False, True])
def test_check__checkpoint(reentrant: bool) -> None:
    def again(part: Any) -> Callable[[Model, torch.Tensor], Any]:
        return lambda model, q: checkpoint(lambda q: part(model, q), q, use_reentrant=reentrant)

    model = converted(again(fine))
    step(model)
    assert finished(model) == {(True, True)}
    assert line_of(scaled, "q * model") in refusal(lambda: step(converted(again(scaled))))
    outside = converted(scaled)
    given = x.clone().requires_grad_()
    refusal(lambda: checkpoint(outside, given, use_reentrant=reentrant).sum().backward())


def test_check__torch_func() -> None:
    def loss(model: torch.nn.Module) -> Callable[[dict[str, Any]], torch.Tensor]:
        return lambda parameters: torch.func.functional_call(model, parameters, (x,)).sum()

    model, bad = converted(fine), converted(scaled)
    expected = torch.autograd.grad(model(x).sum(), model.layer.weight)[0]
    again = copy.deepcopy(model)
    parameters = {name: p.detach() for name, p in again.named_parameters()}
    assert torch.equal(torch.func.grad(loss(again))(parameters)["layer.weight"], expected)
    assert {kind[:2] for kind in check_of(again)._partly} == {(True, True)}
    assert "aten.sum" in refusal(lambda: torch.func.grad(loss(bad))(dict(bad.named_parameters())))
    assert torch.equal(torch.func.vmap(converted(fine))(x.expand(2, 4, 4))[0].isnan(), x.isnan())


def test_check__compiled() -> None:
    """Nothing is watched there: a warning says so, unless the model was called before."""
    model = converted(fine)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with pytest.warns(UserWarning, match="compiled before its first call in training mode"):
        output = compiled(x)
    assert finished(model) == set()
    assert torch.equal(output, model(x))
    step(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compiler.reset()
        torch.compile(model, backend="eager", fullgraph=True)(x).sum().backward()
    torch.compiler.reset()


def test_check__compiled_with_halves() -> None:
    """What is fused keeps float32 between two ops: other bits than without torch.compile."""
    for dtype in (torch.float32, torch.bfloat16):
        model = repdl.from_torch_module(Model(fine).to(dtype))
        model(x.to(dtype))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.compiler.reset()
            torch.compile(model, backend="eager")(x.to(dtype))
            with torch._inductor.config.patch(emulate_precision_casts=True):
                torch.compiler.reset()
                torch.compile(model, backend="eager")(x.to(dtype))
        assert ["halves" in str(warning.message) for warning in caught] == [True] * (dtype is torch.bfloat16)
    torch.compiler.reset()


def test_check__remedies_of_the_rest_of_a_step() -> None:
    """Functions of torch.nn.utils and optimizers have theirs in packages that repdl-core does not need."""
    optim = pytest.importorskip("repdl.optim")
    model = repdl.from_torch_module(torch.nn.Sequential(torch.nn.Linear(4, 4)))
    optimizers = [torch.optim.Adam(model.parameters()), torch.optim.Rprop(model.parameters())]
    remedies = ["repdl.optim.Adam", "repdl.optim.Rprop" if hasattr(optim, "Rprop") else None]

    def clip() -> None:
        step(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)

    assert {row.remedy for row in repdl.audit(clip).refused} == {"repdl.nn.utils.clip_grad_norm_"}
    for optimizer, remedy in zip(optimizers, remedies, strict=True):
        assert {row.remedy for row in repdl.audit(optimizer.step).refused} == {remedy}


def test_check__audit_of_a_converted_model() -> None:
    model = converted(products)
    report = repdl.audit(model, x)
    assert not report.ok and finished(model) == set()
    assert repdl.audit(converted(fine), x).ok
