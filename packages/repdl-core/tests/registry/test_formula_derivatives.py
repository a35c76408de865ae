"""Ops that backends have kernels for and whose derivative is that of their formula, computed again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform

Tensor = torch.Tensor
INDEX = torch.tensor([[0, 1, 2], [2, 2, 3]])
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "prod": lambda x: ops.prod(x, 1),
    "qr": lambda x: ops.qr(x)[1],
    "qr_of_both": lambda x: ops.matmul(*ops.qr(x[:3])),
    "cdist": lambda x: ops.cdist(x, x[:2] + 1),
    "embedding_bag": lambda x: ops.embedding_bag(INDEX, x, mode="mean"),
    "weighted": lambda x: ops.embedding_bag(INDEX, x, mode="sum", per_sample_weights=x[:2]),
    "scatter_reduce": lambda x: ops.scatter_reduce(x, 0, torch.tensor([[0], [0], [2], [0]]).expand(4, 3), x, "prod"),
    "sort": lambda x: ops.sort(x, 0)[0],
    "topk": lambda x: ops.topk(x, 2)[0],
}
EACH = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def jacobian(function: Callable[[Tensor], Tensor], x: Tensor, *, twice: bool = False) -> Tensor:
    """By one backward pass for each element of the result."""
    leaf = x.clone().requires_grad_()
    rows = []
    for element in function(leaf).reshape(-1):
        (row,) = torch.autograd.grad(element, leaf, retain_graph=True, create_graph=twice)
        rows.append(row)
    return torch.stack(rows).reshape(*function(x).shape, *x.shape)


@EACH
def test_formula_derivatives__by_transforms(function: Callable[[Tensor], Tensor]) -> None:
    x = uniform(1, 4, 3) + 2
    expected = jacobian(function, x)
    assert expected.abs().max() > 0
    assert_same_bits(torch.func.jacrev(function)(x), expected)
    y, pull = torch.func.vjp(function, x)
    assert_same_bits(torch.stack([pull(g.view_as(y))[0] for g in torch.eye(y.numel())]).view_as(expected), expected)
    assert not pull(torch.ones_like(y))[0].requires_grad
    batch = torch.stack([x, x.flip(0)])
    each = torch.stack([jacobian(function, example) for example in batch])
    assert_same_bits(torch.func.vmap(torch.func.jacrev(function))(batch), each)


@EACH
def test_formula_derivatives__of_derivatives(function: Callable[[Tensor], Tensor]) -> None:
    def slope(x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: ops.sum(ops.square(function(x))))(x)

    x = (uniform(1, 4, 3) + 2).double()
    leaf = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(ops.sum(ops.square(function(leaf))), leaf, create_graph=True)
    assert_same_bits(slope(x), first.detach())
    (second,) = torch.autograd.grad(first, leaf, torch.ones_like(first))
    assert_same_bits(torch.func.vjp(slope, x)[1](torch.ones_like(x))[0], second)
    assert torch.autograd.gradgradcheck(function, leaf)


def test_formula_derivatives__of_one_of_two_outputs() -> None:
    x = uniform(1, 4, 3).requires_grad_()
    _, r = ops.qr(x)
    (alone,) = torch.autograd.grad(ops.sum(r), x)
    q, r = ops.qr(x)
    (both,) = torch.autograd.grad(ops.sum(r) + 0.0 * ops.sum(q), x)
    assert torch.equal(alone, both)


def test_formula_derivatives__tables_may_change() -> None:
    """embedding_bag keeps no table whose values no gradient needs, as torch's."""
    weight = uniform(1, 4, 3).requires_grad_()
    result = ops.embedding_bag(INDEX, weight, mode="sum")
    with torch.no_grad():
        weight.mul_(0.5)
    result.sum().backward()
    assert weight.grad is not None and torch.equal(weight.grad[:, 0], torch.tensor([1.0, 1.0, 3.0, 1.0]))
