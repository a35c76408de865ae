"""`repdl.enable` inside of `torch.func`'s transforms: Python's numbers beside tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from enabling import same, values

import repdl
from repdl import ops
from repdl.dtypes import ALL

Function = Callable[[torch.Tensor], torch.Tensor]
BESIDE_NUMBERS: dict[str, tuple[Function, Function]] = {
    "mul": (lambda t: t * 0.3, lambda t: ops.mul(t, 0.3)),
    "mul, number first": (lambda t: 0.3 * t, lambda t: ops.mul(t, 0.3)),
    "mul, a whole number": (lambda t: t * 16777217, lambda t: ops.mul(t, 16777217)),
    "mul, a boolean": (lambda t: t * True, lambda t: ops.mul(t, True)),
    "mul in place": (lambda t: (t * t).mul_(0.3), lambda t: ops.mul(ops.mul(t, t), 0.3)),
    "add": (lambda t: t * t + 0.3, lambda t: ops.add(ops.mul(t, t), 0.3)),
    "add alpha": (
        lambda t: torch.add(t * t, 0.3, alpha=0.7) * t,
        lambda t: ops.mul(ops.add(ops.mul(t, t), 0.3, alpha=0.7), t),
    ),
    "sub": (lambda t: (t - 0.3) * t, lambda t: ops.mul(ops.sub(t, 0.3), t)),
    "sub in place": (lambda t: (t * t).sub_(0.3) * t, lambda t: ops.mul(ops.sub(ops.mul(t, t), 0.3), t)),
    "rsub": (lambda t: (0.3 - t) * t, lambda t: ops.mul(ops.sub(0.3, t), t)),
    "div": (lambda t: t / 0.3, lambda t: ops.div(t, 0.3)),
    "rdiv": (lambda t: 0.3 / t, lambda t: ops.mul(ops.reciprocal(t), 0.3)),
    "div down": (
        lambda t: torch.div(t, 0.3, rounding_mode="floor") * t,
        lambda t: ops.mul(ops.div(t, 0.3, rounding_mode="floor"), t),
    ),
    "floor_divide": (lambda t: (t // 0.3) * t, lambda t: ops.mul(ops.floor_divide(t, 0.3), t)),
}


@pytest.mark.parametrize("name", BESIDE_NUMBERS)
def test_enable__numbers_in_transforms(name: str) -> None:
    theirs, by_ops = BESIDE_NUMBERS[name]
    of_dtypes = []
    for dtype in ALL:
        leaf = values(70).to(dtype).requires_grad_()
        output = by_ops(leaf)
        of_dtypes.append((leaf.detach(), output.detach(), torch.autograd.grad(ops.sum(output), leaf)[0]))
    with repdl.enabled():
        for x, output, expected in of_dtypes:
            assert same(torch.func.grad(lambda t: theirs(t).sum())(x), expected)
            value, derivative = torch.func.vjp(theirs, x)
            assert same(value, output)
            assert same(derivative(torch.ones_like(x))[0], expected)
            each = torch.vmap(torch.func.grad(lambda t: theirs(t).sum()))(x.view(7, 10))
            assert same(each.view(70), expected)
            assert same(torch.vmap(theirs)(x.view(7, 10)).view(70), output)


def test_enable__numbers_in_transforms_of_transforms() -> None:
    x = values(5)
    with repdl.enabled():
        twice = torch.func.grad(lambda t: torch.func.grad(lambda u: (u * u * u * 0.3).sum())(t).sum())(x)
        rows = torch.func.jacrev(lambda t: t * 0.3)(x)
    leaf = x.clone().requires_grad_()
    once = ops.mul(ops.mul(ops.mul(leaf, leaf), leaf), 0.3)
    (first,) = torch.autograd.grad(ops.sum(once), leaf, create_graph=True)
    assert same(twice, torch.autograd.grad(ops.sum(first), leaf)[0])
    assert same(rows, torch.eye(5) * 0.3)


def test_enable__integers_beside_numbers_in_transforms() -> None:
    x, n = values(4), torch.tensor([3, -4, 5, 7])
    with repdl.enabled():
        value, derivative = torch.func.vjp(lambda t: t * (n // 2 + 3 * n - 1), x)
        halves = torch.vmap(lambda t: t * 0.5)(n)
    assert torch.equal(derivative(torch.ones(4))[0], (n // 2 + 3 * n - 1).float())
    assert same(value, ops.mul(x, n // 2 + 3 * n - 1))
    assert same(halves, n * 0.5)


def test_enable__transforms_are_torchs_afterwards() -> None:
    """No kernel of ours stays where they begin."""
    key = "FuncTorchDynamicLayerFrontMode"
    with repdl.enabled():
        assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::mul.Tensor", key)
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::mul.Tensor", key)
    assert torch.func.grad(lambda t: (t * 2.0).sum())(values(3)).tolist() == [2, 2, 2]
