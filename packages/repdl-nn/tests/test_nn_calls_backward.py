"""Backward passes from the results of a converted model: derivatives, hooks, checkpoints, and losses."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import repdl
from repdl.audit import classify
from repdl.overrides.torchs import is_within
from watched import Model, Outer, converted, fine, is_same, line_of, products, refusal, scaled, step, x

W = torch.linspace(-1, 1, 16).view(4, 4)


class Ops(TorchDispatchMode):
    """Ops of torch that are not reproducible, noted."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = op(*args, **(kwargs or {}))
        if not classify(op, args, kwargs or {}, result).reproducibility.ok:
            self.found.append(str(op))
        return result


class Product(torch.autograd.Function):
    """Whose backward calls what it is given."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, derivative: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        ctx.derivative = derivative
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return ctx.derivative(grad), None


def bent(derivative: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Model, torch.Tensor], torch.Tensor]:
    return lambda model, q: model.act(Product.apply(q, derivative))


def test_backward__of_functions_of_ones_own() -> None:
    def many(grad: torch.Tensor) -> torch.Tensor:
        return (grad @ W).softmax(-1) + grad.mean()

    def spectrum(grad: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(grad).real

    assert is_same(bent(many)) and is_same(bent(many), Outer)
    found = refusal(lambda: step(converted(bent(spectrum))))
    assert "aten._fft_r2c" in found and line_of(spectrum, "torch.fft") in found and "ProductBackward" in found


SUMS: list[Callable[[Model, torch.Tensor], torch.Tensor]] = [
    scaled,
    lambda model, q: q[0].expand(4, 4),
    lambda model, q: q.repeat(3, 2),
    lambda model, q: q[torch.tensor([0, 0, 1]), torch.tensor([1, 1, 2])],
    lambda model, q: q.gather(1, torch.tensor([[0, 0, 1, 1]] * 4)),
    lambda model, q: q.index_select(0, torch.tensor([1, 1, 1])),
    lambda model, q: q.take(torch.tensor([1, 1, 5])),
    lambda model, q: q.unfold(0, 3, 1),
    lambda model, q: q.as_strided((3, 3), (1, 1)),
    lambda model, q: torch.where(W > 0, model.layer.bias, q[0, 0]),
    lambda model, q: W.masked_fill(W > 0, q[0, 0]),
    lambda model, q: torch.zeros(4, 4).copy_(model.layer.bias),
    lambda model, q: torch.zeros(4, 4).index_put((torch.tensor([1, 2]),), model.layer.bias),
    lambda model, q: torch.fill(W, q[0, 0]),
    lambda model, q: q.nan_to_num(),
    lambda model, q: torch.complex(q, model.layer.bias).imag,
    lambda model, q: q.double().half().float(),
]


def test_backward__of_torchs_nodes_is_repdls() -> None:
    """Data that is moved has a derivative that may be a sum, or rounds. None of it is torch's."""
    for number, own in enumerate(SUMS):
        assert is_same(own), number
        model = converted(own)
        output, ops = model(x), Ops()
        with ops:
            output.backward(torch.ones_like(output))
        assert not ops.found, (number, ops.found)


def test_backward__second_derivatives() -> None:
    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        return (q.tanh() * model.layer.bias).expand(2, 4, 4)[torch.tensor([0, 1, 1])]

    def penalty(model: torch.nn.Module) -> dict[str, torch.Tensor]:
        given = x.clone().requires_grad_()
        output = model(given)
        (grad,) = torch.autograd.grad(output, given, torch.ones_like(output), create_graph=True)
        return dict(enumerate(torch.autograd.grad(grad, list(model.parameters()), torch.ones_like(grad))))

    found = repdl.digest(penalty(converted(own)))
    with repdl.enabled():
        assert found == repdl.digest(penalty(Model(own)))


def test_backward__results_in_containers_and_beside_the_result() -> None:
    @dataclasses.dataclass
    class Output:
        loss: torch.Tensor

    wrap: list[Callable[[Model, torch.Tensor], Any]] = [
        lambda model, q: {"first": [q], "second": (scaled(model, q[:1].expand(4, 4)),)},
        lambda model, q: Output(scaled(model, q[:1].expand(4, 4))),
        lambda model, q: setattr(model, "extra", scaled(model, q[:1].expand(4, 4))),
    ]
    read: list[Callable[[Model, Any], torch.Tensor]] = [
        lambda model, out: out["second"][0], lambda model, out: out.loss, lambda model, out: model.extra,
    ]  # fmt: skip
    expected = converted(lambda model, q: scaled(model, q[:1].expand(4, 4)))
    expected(x).backward(W)
    for own, get in zip(wrap, read):
        model = converted(own)
        get(model, model(x)).backward(W)
        assert repdl.digest([model.layer.weight.grad]) == repdl.digest([expected.layer.weight.grad])


def test_backward__hooks() -> None:
    """Of tensors, of modules, and of the program: the last are no part of the model."""
    seen: list[bool] = []

    def noted(*args: Any) -> None:
        seen.append(is_within())

    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        q.register_hook(lambda grad: grad / grad.norm())
        q.register_hook(noted)
        return model.act(q)

    model = converted(own)
    model.act.register_full_backward_hook(noted)
    assert is_same(own)
    seen.clear()
    model.layer.weight.register_hook(noted)
    output = model(x)
    output.register_hook(noted)
    output.sum().backward()
    assert seen == [False, True, True, False] and not is_within()


@pytest.mark.parametrize("reentrant", [False, True])
def test_backward__checkpoint(reentrant: bool) -> None:
    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda q: F.dropout(products(model, q).expand(2, 4, 4), 0.25), q, use_reentrant=reentrant)

    assert is_same(own)
    outside, given = converted(products), x.clone().requires_grad_()
    checkpoint(outside, given, use_reentrant=reentrant).backward(W)
    step(converted(products))
    again = x.clone().requires_grad_()
    converted(products)(again).backward(W)
    assert torch.equal(given.grad, again.grad)


def test_backward__exception() -> None:
    def fail(grad: torch.Tensor) -> torch.Tensor:
        raise ValueError

    model = converted(bent(fail))
    with pytest.raises(ValueError):
        step(model)
    assert not is_within()


def test_backward__torch_func() -> None:
    def loss(model: torch.nn.Module) -> Callable[[dict[str, Any]], torch.Tensor]:
        return lambda parameters: repdl.ops.sum(torch.func.functional_call(model, parameters, (x,)))

    def own(model: Model, q: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ q.T * 2, -1) + q.tanh()

    model, plain = converted(own), Model(own)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    found = torch.func.grad(loss(model))(parameters), torch.func.vmap(model)(x.expand(2, 4, 4))
    with repdl.enabled():
        expected = torch.func.grad(loss(plain))(parameters), torch.func.vmap(plain)(x.expand(2, 4, 4))
    assert repdl.digest(found[0]) == repdl.digest(expected[0]) and torch.equal(found[1], expected[1])
    assert torch.equal(found[1][0], model(x))


def test_backward__loss_of_torch_is_a_warning() -> None:
    """What a training loop computes of the results is no part of the model, and decides what is trained."""
    labels, scale = torch.tensor([0, 1, 2, 3]), torch.ones(4, requires_grad=True)
    ops = repdl.ops
    losses: list[tuple[Callable[[torch.Tensor], torch.Tensor], str]] = [
        (lambda y: F.cross_entropy(y, labels), "torch's log_softmax, nll_loss have"),
        (lambda y: ops.sum(F.relu(y)) + y.mean(), "torch's mean, relu have"),
        (lambda y: ops.mean(y * scale), "torch's mul has"),
        (lambda y: ops.sum(y.gather(1, labels[:, None])), "torch's gather has"),
        (lambda y: (y**3).sum().log(), "torch's log, pow, sum have"),
    ]
    for own in (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), Model(products)):
        for loss, text in losses:
            model = repdl.from_torch_module(own)
            with pytest.warns(UserWarning, match=f"the loss .* of {type(own).__name__}, .*{text}") as caught:
                loss(model(x)).backward()
            assert caught[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loss(model(x)).backward()


def test_backward__losses_that_are_fine() -> None:
    """A sum, whose derivative is exact, single roundings, masks, and what torch computed before the model."""
    labels, before = torch.tensor([0, 1, 2, 3]), torch.nn.Linear(4, 4)
    losses: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda y: y.sum(),
        lambda y: repdl.ops.cross_entropy(y / 2 + y * y, labels) * 0.5,
        lambda y: repdl.ops.sum((y[y > 0] - 1) ** 2),
        lambda y: repdl.ops.sum(torch.cat([y, y.t()]).reshape(8, 4)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in losses:
            loss(converted(fine)(before(x))).backward()
        inside = converted(lambda model, q: F.cross_entropy(q, labels))
        inside(x).backward()
