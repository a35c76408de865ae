"""The check of a converted model's first calls: what it finds in forward passes, and which calls are first ones."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.config
import torch.nn.functional as F

import repdl
from watched import (
    Model,
    Outer,
    check_of,
    converted,
    dropout,
    finished,
    line_of,
    mean,
    products,
    refusal,
    scaled,
    step,
    x,
)


def test_check__forward_all_at_once_with_op_module_and_line() -> None:
    text = refusal(lambda: repdl.from_torch_module(Outer(Model(products)))(x))
    first, second = [line for line in text.splitlines() if line.startswith("  aten.")]
    assert "aten.mm.default in blocks.0, " in first and line_of(products, "q @ q.T") in first
    assert "use repdl.ops.matmul" in first
    assert "aten._softmax.default in blocks.0, " in second and line_of(products, "F.softmax") in second
    assert "use repdl.nn.functional.softmax" in second and "2 ops are not reproducible" in text


def test_check__blocks_alike_share_a_line() -> None:
    blocks = torch.nn.Sequential(*(Model(products) for _ in range(3)))
    text = refusal(lambda: repdl.from_torch_module(blocks)(x))
    first, second = [line for line in text.splitlines() if line.startswith("  aten.")]
    assert "aten.mm.default (3 times) in 0 and 2 other modules, " in first and "2 ops are not" in text
    assert "aten._softmax.default (3 times) in 0 and 2 other modules, " in second


@pytest.mark.parametrize(
    ("own", "op", "text"),
    [(mean, "aten.mean.default", "q.mean()"), (dropout, "aten.bernoulli_.float", "F.dropout")],
)
def test_check__forward(own: Any, op: str, text: str) -> None:
    found = refusal(lambda: converted(own)(x))
    assert op in found and line_of(own, text) in found and "training mode" in found


def test_check__each_mode() -> None:
    """Dropout is nothing in eval mode, and is found when the model trains."""
    model = converted(dropout).eval()
    with torch.no_grad():
        model(x)
    step(model)
    assert finished(model) == {(False, False), (False, True)}
    assert "aten.bernoulli_" in refusal(lambda: model.train()(x))
    assert "aten.bernoulli_" in refusal(lambda: model(x)), "not once only"
    with torch.no_grad():
        refusal(lambda: model(x))


class Branches(torch.nn.Module):
    """A forward with a branch that is torch's own, which some arguments take."""

    def __init__(self, takes: Callable[..., bool]) -> None:
        super().__init__()
        self.layer, self.takes = torch.nn.Linear(4, 4), takes

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        h = self.layer(args[0].float())
        return F.softmax(h, -1) if self.takes(*args, **kwargs) else h


def test_check__branches_that_a_later_call_takes() -> None:
    """A call whose arguments are of another kind is a first call, too."""
    cases: list[tuple[Callable[..., bool], tuple[Any, ...], dict[str, Any]]] = [
        (lambda x, flag=False: flag, (x, True), {}),
        (lambda x, flag=False: flag, (x,), {"flag": True}),
        (lambda x, how="": how == "probabilities", (x,), {"how": "probabilities"}),
        (lambda x, past=None: past is not None, (x, x), {}),
        (lambda x, past=None: past is not None, (x,), {"past": [(x, x)]}),
        (lambda x: len(x) == 1, (x[:1],), {}),
        (lambda x: x.dim() == 3, (x[None],), {}),
        (lambda x: x.dtype is torch.bfloat16, (x.bfloat16(),), {}),
        (lambda x: x.requires_grad, (x.clone().requires_grad_(),), {}),
    ]
    for takes, args, kwargs in cases:
        model = repdl.from_torch_module(Branches(takes))
        for _ in range(2):
            model(x).sum().backward()
        assert "_softmax" in refusal(lambda: model(*args, **kwargs))

    model = repdl.from_torch_module(Branches(lambda x: torch.is_autocast_enabled("cpu")))
    model(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert "_softmax" in refusal(lambda: model(x))


@dataclasses.dataclass(frozen=True)
class Batch:
    __slots__ = ("mask", "x")
    x: torch.Tensor
    mask: torch.Tensor | None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_check__arguments_of_any_kind() -> None:
    model = repdl.from_torch_module(Branches(lambda x, batch: isinstance(batch, Batch) and batch.mask is not None))
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for batch in (
        Batch(x, None),
        Batch,
        nested,
        nested.layout,
        {1: [x]},
        [x] * 100,
        torch.ones(0),
        object(),
        x.to_sparse(),
    ):
        model(x, batch)
        model(x, batch)
    assert "_softmax" in refusal(lambda: model(x, Batch(x, x)))


def test_check__kinds_of_calls_are_few() -> None:
    """Other sizes and numbers are no other kind, and what is called with ever new strings is not watched forever."""
    model = repdl.from_torch_module(Branches(lambda x, *_: False))
    for size in range(2, 9):
        model(torch.ones(size, 4), size, float(size)).sum().backward()
    assert len(check_of(model)._finished) == 1
    for name in range(100):
        model(x, str(name))
    assert len(check_of(model)._watches) == 64


def test_check__a_layer_of_ones_own() -> None:
    class Own(repdl.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.tanh(super().forward(input))

    assert "aten.tanh.default, " in refusal(lambda: repdl.from_torch_module(Own(4, 4))(x))


def test_check__not_strict() -> None:
    model = converted(lambda model, q: scaled(model, q) + q.mean(), strict=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        output = model(x)
        assert len(caught) == 1
        output.sum().backward()
        step(model)
    for warning, part in zip(caught, ("forward", "backward"), strict=True):
        assert f"in the {part} pass" in str(warning.message) and warning.filename == __file__
    assert finished(model) == {(True, True)}


def test_check__layers_that_were_left_as_they_are() -> None:
    class Computed(torch.nn.Linear):
        weight = property(lambda self: torch.ones(4, 4))

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.bias = torch.nn.Parameter(torch.ones(4))

    with pytest.warns(UserWarning, match="can't be converted"):
        model = repdl.from_torch_module(torch.nn.Sequential(torch.nn.Linear(4, 4), Computed()), strict=False)
    with pytest.warns(UserWarning, match=r"not reproducible:\n  aten\.addmm.* in 1, "):
        model(x)
