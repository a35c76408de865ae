"""What is particular to running sums and products: what an output depends on, zeros, ties, derivatives."""

from __future__ import annotations

import pytest
import torch

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected, derivatives, gamma

NAN, INF = float("nan"), float("inf")


def test_cumsum__near_torch_in_float64() -> None:
    # 1024 roundings in a block and one for each block before it, of at most all terms' magnitudes.
    for shape, dim in (((3, 2500), 1), ((2500, 3), 0), ((2, 40, 3), 1), ((5,), -1)):
        x, grad = uniform(1, *shape), uniform(2, *shape)
        pairs = zip(
            derivatives(lambda t: ops.cumsum(t, dim), [x], grad),
            derivatives(lambda t: torch.cumsum(t, dim), [x.double()], grad.double()),
            (x, grad),
        )
        for actual, exact, terms in pairs:
            bound = gamma(min(1024, shape[dim]) + 3) * terms.double().abs().sum(dim, keepdim=True)
            assert ((actual - exact).abs() <= bound).all(), shape


def test_scans__an_output_depends_on_what_stands_before_it_only() -> None:
    x = uniform(1, 3, 2100) + 1.0
    for function in (ops.cumsum, ops.cumprod):
        whole = function(x, 1)
        for n in (1, 63, 1023, 1024, 1025, 2099):
            assert_same_bits(function(x[:, :n], 1), whole[:, :n])
            assert_same_bits(function(x[1:2, :n], 1), whole[1:2, :n])


@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_cumprod__derivatives_of_zeros(contract: str) -> None:
    x = torch.tensor([[2.0, 0.0, 3.0, 0.0, 5.0], [0.5, 2.0, -4.0, 1.0, 0.0], [0.0] * 5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda t: ops.cumprod(t, 1, contract=contract), x.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda t: ops.cumprod(t, 1, contract=contract), x)
    y = uniform(1, 2, 7).double().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda t: ops.cumsum(t, 1, contract=contract), y)
    scan = torch.ops.repdl.linear_scan
    assert torch.autograd.gradcheck(lambda a, b: scan(a, b, 1), (y, uniform(2, 2, 7).double().requires_grad_()))
    assert torch.autograd.gradgradcheck(lambda a, b: scan(a, b, 1), (y, uniform(2, 2, 7).double().requires_grad_()))


def test_linear_scan__does_not_read_the_first_factor() -> None:
    factor, term = torch.tensor([NAN, 2.0]), torch.tensor([1.0, 3.0])
    factor.requires_grad_()
    out = torch.ops.repdl.linear_scan(factor, term, 0)
    assert out.tolist() == [1.0, 5.0]
    (grad,) = torch.autograd.grad(out[1], factor)
    assert grad.tolist() == [0.0, 1.0]


def test_cummax__the_last_of_equal_elements() -> None:
    rows = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0], [-0.0, 0.0, -1.0, -0.0, 1e-45], [1.0, NAN, INF, NAN, 2.0]])
    for ours, theirs in ((ops.cummax, torch.cummax), (ops.cummin, torch.cummin)):
        for x in (rows, rows.half(), rows.double(), rows.nan_to_num().int(), torch.tensor(2.0), torch.ones(3, 0)):
            actual, exact = ours(x, -1), theirs(x, -1)
            assert torch.equal(actual.indices, exact.indices), x
            assert torch.equal(actual.values.nan_to_num(), exact.values.nan_to_num()), x
    assert ops.cummax(rows, 1).indices[1].tolist() == [0, 1, 1, 3, 4]


def test_cummax__gradient_is_the_contracts_sum() -> None:
    x = torch.zeros(1, 200, requires_grad=True)
    with torch.no_grad():
        x[0, 3] = 1.0
    grad = uniform(1, 1, 200)
    (found,) = torch.autograd.grad(ops.cummax(x, 1).values, x, grad)
    assert_same_bits(found[0, 3], ops.sum(grad[0, 3:]))
    assert torch.autograd.gradcheck(lambda t: ops.cummax(t, 0).values, uniform(3, 6, 2).double().requires_grad_())


def test_scans__integers_are_exact() -> None:
    x = torch.tensor([[True, True], [False, True]])
    assert ops.cumsum(x, 0).tolist() == [[1, 1], [1, 2]]
    assert ops.cumprod(x.int(), 1).dtype == torch.int64
    assert ops.cumsum(x, 0, dtype=torch.float64).dtype == torch.float64


def test_scans__reject() -> None:
    x = uniform(1, 2, 3)
    for name in ("cumsum", "cumprod", "cummax", "cummin"):
        ours, theirs = getattr(ops, name), getattr(torch, name)
        assert_rejected(lambda: ours(x, 2), IndexError, f"{name}: dim is 2", by_torch=lambda: theirs(x, 2))
        assert_rejected(lambda: ours(x, 0.0), TypeError, f"{name}: dim", by_torch=lambda: theirs(x, 0.0))
        assert_rejected(lambda: ours(x), UnsupportedError, f"{name}: dim is None", by_torch=lambda: theirs(x))
    assert_rejected(lambda: ops.cumsum(x, 0, dtype=torch.complex64), UnsupportedError, "cumsum: dtype")
