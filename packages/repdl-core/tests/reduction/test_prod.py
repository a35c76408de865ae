"""What is particular to prod: zeros, no elements, the order."""

from __future__ import annotations

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected, derivatives, gamma


def test_prod__near_torch_in_float64() -> None:
    x = uniform(1, 4, 9, 5) + 1.25
    for dim in (0, 1, 2, None):
        options = {} if dim is None else {"dim": dim}
        grad = uniform(2, *torch.prod(x, **options).shape)
        actual = derivatives(lambda t: ops.prod(t, **options), [x], grad)
        exact = derivatives(lambda t: torch.prod(t, **options), [x.double()], grad.double())
        for a, e in zip(actual, exact):  # every term passes through less roundings than there are elements
            assert ((a - e).abs() <= gamma(x.numel()) * e.abs()).all(), dim


def test_prod__derivatives_of_zeros() -> None:
    rows = torch.tensor([[2.0, 3.0, 5.0], [2.0, 0.0, 5.0], [0.0, 3.0, 0.0], [0.0] * 3], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda t: ops.prod(t, 1), rows.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda t: ops.prod(t, 1), rows)
    (grad,) = torch.autograd.grad(ops.prod(rows.float(), 1).sum(), rows)
    assert grad.tolist() == [[15.0, 10.0, 6.0], [0.0, 10.0, 0.0], [0.0] * 3, [0.0] * 3]


def test_prod__of_no_elements_and_integers() -> None:
    x = torch.ones(2, 0, requires_grad=True)
    assert ops.prod(x, 1).tolist() == [1.0, 1.0] and ops.prod(x).item() == 1.0
    ops.prod(x).backward()
    assert ops.prod(torch.tensor([[2, 3], [4, 5]]), 0, True).tolist() == [[8, 15]]
    assert ops.prod(torch.tensor([True, False])).dtype == torch.int64


def test_prod__a_row_is_that_of_its_batch() -> None:
    x = uniform(1, 40, 33)
    whole = ops.prod(x, 1)
    for i in (0, 17, 39):
        assert_same_bits(ops.prod(x[i : i + 1], 1), whole[i : i + 1])
        assert_same_bits(ops.prod(x[i]), whole[i])


def test_prod__rejects() -> None:
    x = uniform(1, 2, 3)
    assert_rejected(lambda: ops.prod(x, 2), IndexError, "prod: dim is 2", by_torch=lambda: torch.prod(x, 2))
    assert_rejected(lambda: ops.prod(x, (0, 1)), TypeError, "prod: dim", by_torch=lambda: torch.prod(x, (0, 1)))
    assert_rejected(lambda: ops.prod(x.to(torch.complex64)), TypeError, "complex64")
