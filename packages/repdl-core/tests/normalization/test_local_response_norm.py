"""What is particular to local_response_norm: torch's values and derivatives, its order, errors."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives


def test_local_response_norm__values_and_derivatives() -> None:
    for shape in ((2, 7, 5), (2, 7, 3, 4), (1, 3, 2, 2, 2)):
        x, grad = uniform(1, *shape, scale=4.0), uniform(2, *shape)
        for size, alpha, beta, k in (
            (1, 0.5, 0.75, 1.0),
            (2, 1e-4, 0.75, 1.0),
            (5, 2.0, 0.5, 2.0),
            (20, 0.1, 1.0, 1.0),
        ):
            actual, exact = (
                derivatives(lambda t: m.local_response_norm(t, size, alpha, beta, k), [x.to(d)], grad.to(d))
                for m, d in ((ops, torch.float32), (F, torch.float64))
            )
            for a, e in zip(actual, exact):
                # size + 8 roundings of quotients up to 4, and in the gradient of up to size terms below 2 * 16.
                assert_within(a, e, (size + 16) * size * 32 * U, f"{shape} {size}")


def test_local_response_norm__written_out_in_ops() -> None:
    x = uniform(1, 2, 6, 5, scale=4.0)
    squares = ops.square(x)
    for c in range(6):
        total = torch.zeros(2, 5)
        for n in range(c - 2, c + 2):  # a window of 4 has two channels before and one after
            total = ops.add(total, squares[:, n]) if 0 <= n < 6 else total
        scale = ops.add(ops.mul(ops.div(total, 4), 0.3), 1.5)
        assert_same_bits(ops.local_response_norm(x, 4, 0.3, 0.75, 1.5)[:, c], ops.div(x[:, c], ops.pow(scale, 0.75)))


def test_local_response_norm__a_nan_stays_in_its_window() -> None:
    x = uniform(1, 1, 9, 2)
    x[0, 4, 0] = float("nan")
    nan = ops.local_response_norm(x, 3).isnan()
    assert nan[0, 3:6, 0].all() and nan.sum() == 3


def test_local_response_norm__rejects() -> None:
    x = uniform(1, 2, 3, 4)
    by_torch = lambda: F.local_response_norm(x[0], 3)
    assert_rejected(lambda: ops.local_response_norm(x[0], 3), ValueError, "input.dim() is 2", by_torch=by_torch)
    assert_rejected(lambda: ops.local_response_norm(x, 0), ValueError, "size is 0")
    assert_rejected(lambda: ops.local_response_norm(x.int(), 3), TypeError, "input.dtype is int32")
