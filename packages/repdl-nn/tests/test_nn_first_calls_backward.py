"""What the check of a converted model's first calls finds in backward passes, in hooks and in losses."""

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
    converted,
    fine,
    finished,
    line_of,
    refusal,
    scaled,
    step,
    x,
)


class Product(torch.autograd.Function):
    """Whose backward alone is torch's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(w)
        return repdl.ops.mm(x, w)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (w,) = ctx.saved_tensors
        return torch.mm(grad, w.t()), None


def test_check__backward_alone() -> None:
    def product(model: Model, q: torch.Tensor) -> torch.Tensor:
        return Product.apply(q, model.layer.weight)

    found = refusal(lambda: step(repdl.from_torch_module(Outer(Model(product)))))
    assert "aten.mm.default in blocks.0, " in found and line_of(Product.backward, "torch.mm") in found
    assert "in the backward pass" in found and "ProductBackward" in found


def test_check__backward_of_torchs_own_function() -> None:
    """Its line is that of the forward."""
    model = converted(scaled)
    output = model(x)
    found = refusal(lambda: output.sum().backward())
    assert "aten.sum.dim_IntList" in found and line_of(scaled, "q * model") in found and "use repdl.ops.mul" in found
    assert finished(model) == set()


def test_check__backward_of_a_later_call() -> None:
    """The first call was for nothing but its value."""
    model = converted(scaled)
    model(x)
    model(x + 1)
    found = refusal(lambda: step(model))
    assert line_of(scaled, "q * model") in found


def test_check__backward_to_some_leaves() -> None:
    """As of a gradient penalty: it is watched, and so is the first pass to all leaves."""
    model = converted(scaled)
    for _ in range(2):
        torch.autograd.grad(model(x).sum(), model.layer.weight)
    model(x).sum().backward(inputs=[model.layer.weight])
    assert finished(model) == set()
    assert "aten.sum" in refusal(lambda: step(model))
    other = converted(scaled)
    assert "aten.sum" in refusal(lambda: torch.autograd.grad(other(x).sum(), list(other.parameters())))


def test_check__second_derivatives() -> None:
    class Square(torch.autograd.Function):
        """Whose derivative has a derivative of torch's."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return repdl.ops.square(x)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return repdl.ops.mul(Exponential.apply(x), grad)

    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return repdl.ops.exp(x)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return torch.exp(grad)

    model = converted(lambda model, q: Square.apply(q))
    (grad,) = torch.autograd.grad(model(x).sum(), model.layer.weight, create_graph=True)
    found = refusal(lambda: grad.sum().backward())
    assert "aten.exp.default" in found and line_of(Exponential.backward, "torch.exp") in found
    step(converted(lambda model, q: Square.apply(q)))


def test_check__results_in_containers_and_beside_the_result() -> None:
    @dataclasses.dataclass
    class Output:
        loss: torch.Tensor

    wrap: list[Callable[[Model, torch.Tensor], Any]] = [
        lambda model, q: {"first": [q], "second": (scaled(model, q),)},
        lambda model, q: Output(scaled(model, q)),
        lambda model, q: setattr(model, "extra", scaled(model, q)),  # an auxiliary loss that a model keeps
    ]
    read: list[Callable[[Model, Any], torch.Tensor]] = [
        lambda model, out: out["second"][0], lambda model, out: out.loss, lambda model, out: model.extra,
    ]  # fmt: skip
    for own, get in zip(wrap, read):
        model = converted(own)
        output = get(model, model(x))
        assert "aten.sum.dim_IntList" in refusal(lambda: output.sum().backward())


def test_check__hooks_of_the_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    assert not repdl.from_torch_module(model[0])._forward_pre_hooks, "a layer alone has nothing to check"
    later = repdl.from_torch_module(model)
    later[0].register_forward_hook(lambda module, args, output: output.softmax(-1))
    assert "aten._softmax.default in 0" in refusal(lambda: later(x))
    model[0].register_forward_hook(lambda module, args, output: output.exp())
    assert "aten.exp.default in 0, " in refusal(lambda: repdl.from_torch_module(model)(x))


def test_check__hooks_of_tensors() -> None:
    """Autograd calls them before those of nodes."""

    def scaled_gradient(model: Model, q: torch.Tensor) -> torch.Tensor:
        q.register_hook(lambda gradient: gradient / gradient.norm())
        return model.act(q)

    def clip(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.clamp_(-1, 1)

    model = converted(scaled_gradient)
    output = model(x)
    found = refusal(lambda: output.sum().backward())
    assert (
        "backward pass" in found and "aten.linalg_vector_norm" in found and line_of(scaled_gradient, "norm()") in found
    )

    hooks: list[tuple[str, Callable[[torch.Tensor], Any]]] = [
        ("register_hook", lambda gradient: gradient.clamp(-1, 1)),
        ("register_post_accumulate_grad_hook", clip),
        ("register_hook", lambda gradient: gradient * 0.5),
    ]
    for name, hook in hooks:
        model = converted(fine)
        getattr(model.layer.bias, name)(hook)
        registered = model.layer.bias._backward_hooks or model.layer.bias._post_accumulate_grad_hooks
        output = model(x)
        if hook is hooks[-1][1]:
            output.sum().backward()
            step(model)
        else:
            assert "aten.clamp" in refusal(lambda: output.sum().backward())
        assert registered is not None and [*registered.values()] == [hook]


@pytest.mark.filterwarnings("ignore:the loss")
def test_check__what_is_before_and_after_the_model_is_not_its_own() -> None:
    model, scale = converted(fine), torch.ones(4, requires_grad=True)
    (model(x.exp() * scale) * scale).mean().backward()
    assert finished(model) == {(True, True)} and scale.grad is not None
    first, second = converted(fine), converted(scaled)
    assert "Model, converted" in refusal(lambda: second(first(x)).sum().backward())
    assert finished(first) <= {(True, True)} and finished(second) == set()


def test_check__loss_of_torch_is_a_warning() -> None:
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
    for own in (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), Model(fine)):
        for loss, text in losses:
            model = repdl.from_torch_module(own)
            with pytest.warns(UserWarning, match=f"the loss .* of {type(own).__name__}, .*{text}") as caught:
                loss(model(x)).backward()
            assert caught[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loss(model(x)).backward()


def test_check__losses_that_are_fine() -> None:
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
