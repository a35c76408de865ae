"""Checks, outputs and derivatives that get what their parameters name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from repdl import ops, registry
from repdl.registry import autograd, derivative, schema
from repdl.registry.named import by_name

NAMES = ("input", "weight", "dim")
NUMBERS = iter(range(100))
"""torch keeps a schema for the rest of the process: each op has a name of its own."""


def test_by_name__gives_what_is_named() -> None:
    assert by_name(lambda dim, input: (dim, input), "op", NAMES)(1, 2, 3) == (3, 1)
    assert by_name(lambda op, weight: (op, weight), "mine", NAMES)(1, 2, 3) == ("mine", 2)
    assert by_name(lambda op: op, "mine", ("input", "op"))(1, 2) == 2
    assert by_name(lambda weight, sums=None: (weight, sums), "op", NAMES)(1, 2, 3) == (2, None)
    assert by_name(lambda *args: args, "op", NAMES)(1, 2, 3) == (1, 2, 3)


def test_by_name__of_a_name_that_is_none() -> None:
    with pytest.raises(TypeError, match="mine: a function takes bias, expected arguments of the op: input, weight"):
        by_name(lambda input, bias: None, "mine", NAMES)


@contextmanager
def product(gradients: Any, names: str = "Tensor, Tensor") -> Iterator[Callable[..., tuple[Tensor, Tensor]]]:
    """An op of another project, x * y * by and x * y."""
    name = f"scaled_product_{next(NUMBERS)}"
    op = registry.define(
        name,
        f"(Tensor x, Tensor y, float by) -> ({names})",
        namespace="test_named",
        distribution="theirs",
        check=lambda x, y: None,
        fake=lambda x: (x.new_empty(x.shape), x.new_empty(x.shape)),
        gradients=gradients,
    )
    registry.implement(name, "reference", lambda x, y, by: (x * y * by, x * y))
    registry.implement(name, "cpu", lambda x, y, by: (x * y * by, x * y))
    try:
        yield op
    finally:
        registry.undefine(name)
        schema.LIBRARIES.pop("test_named")._destroy()


def saved(output: Tensor) -> list[bool]:
    """Which of its tensors a node has kept."""
    assert output.grad_fn is not None
    return [tensor is not None for tensor in output.grad_fn.saved_tensors]  # type: ignore[attr-defined]


def test_derivative__keeps_what_a_wanted_gradient_needs() -> None:
    gradients = {"x": lambda g, y, by: ops.mul(ops.mul(g, y), by), "y": lambda g, x, by: ops.mul(ops.mul(g, x), by)}
    with product(gradients) as op:
        x, y = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0])
        output, other = op(x, y, 5.0)
        assert not other.requires_grad and saved(output) == [False, True]
        output.backward()
        assert x.grad is not None and x.grad.tolist() == [15.0]


def test_derivative__parts_outputs_and_traits() -> None:
    seen: list[str] = []

    def scaled(g: Tensor, by: float) -> Tensor:
        seen.append("scaled")
        return ops.mul(g, by)

    def to_y(
        scaled: Tensor, to_x: Tensor, x: Tensor, plain: Tensor, y_shape: torch.Size, y_dtype: torch.dtype
    ) -> Tensor:
        seen.append(f"{tuple(y_shape)} {y_dtype} {plain.tolist()} {to_x.tolist()}")
        return ops.mul(scaled, x)

    gradients = {"scaled": scaled, "x": lambda scaled, y: ops.mul(scaled, y), "y": to_y}
    with product(gradients, "Tensor output, Tensor plain") as op:
        x, y = (torch.tensor([value], requires_grad=True) for value in (2.0, 3.0))
        op(x, y, 5.0)[0].backward()
        assert x.grad is not None and y.grad is not None
        assert (x.grad.tolist(), y.grad.tolist()) == ([15.0], [10.0])
    assert seen == ["scaled", "(1,) torch.float32 [6.0] [15.0]"]


def test_derivative__of_several_at_once_and_by_the_name_of_an_op() -> None:
    both = lambda grads, x, y: (ops.mul(grads[0], y), ops.mul(grads[1], x))
    with product({("x", "y"): both}) as op:
        x, y = (torch.tensor([value], requires_grad=True) for value in (2.0, 3.0))
        output, other = op(x, y, 1.0)
        (output + other).sum().backward()
        assert x.grad is not None and y.grad is not None
        assert (x.grad.tolist(), y.grad.tolist()) == ([3.0], [2.0])
    with product({"contract": lambda: "v1", "other": lambda y: y, "x": "mul"}) as op:
        x = torch.tensor([2.0], requires_grad=True)
        op(x, torch.tensor([3.0]), 1.0)[0].backward()
        assert x.grad is not None and x.grad.tolist() == [3.0]


def test_derivative__of_one_function_nobody_asks_which_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large tensors: to ask takes 20 microseconds for each leaf that `torch.autograd.grad` is given."""
    asked: list[Any] = []
    for module in (autograd, derivative):
        monkeypatch.setattr(module, "is_executed", lambda node: bool(asked.append(node)) or True)
    x, other = (torch.arange(2.0**16).reshape(256, 256).requires_grad_() for _ in range(2))
    weight = torch.ones(256, requires_grad=True)
    for _ in range(4):  # the first call, one that is recorded, and two that are repeated
        found = torch.autograd.grad(ops.layer_norm(x, (256,), weight).square().sum(), [x, weight])
        alone = torch.autograd.grad(ops.layer_norm(x, (256,), weight).square().sum(), [weight])
        assert torch.equal(found[1], alone[0]) and not asked
    torch.autograd.grad(ops.mm(x, other).sum(), [x])
    assert asked
