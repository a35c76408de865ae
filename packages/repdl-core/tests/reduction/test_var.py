"""What is particular to variances: options, deviations of 0, means far from 0."""

from __future__ import annotations

import math

import torch

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

NAMES = ("var", "std", "var_mean", "std_mean")


def test_var__every_way_to_say_the_correction() -> None:
    x = uniform(1, 6, 7)
    calls = [
        ((), {}),
        ((True,), {}),
        ((False,), {}),
        ((1,), {}),
        ((1, False), {}),
        ((None, True, True), {}),
        (([0, 1],), {"correction": 0}),
        ((), {"correction": 2.5, "keepdim": True}),
        ((), {"dim": 0, "unbiased": False}),
    ]
    for name in NAMES:
        ours, theirs = getattr(ops, name), getattr(torch, name)
        for args, options in calls:
            actual, exact = ours(x, *args, **options), theirs(x.double(), *args, **options)
            for a, e in zip(actual, exact) if isinstance(actual, tuple) else [(actual, exact)]:
                assert a.shape == e.shape and ((a - e).abs() <= 2.0**-20).all(), (name, args, options)


def test_var__mean_and_deviation_are_those_of_the_functions() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        x = uniform(1, 6, 7).to(dtype)
        both, roots = ops.var_mean(x, 1), ops.std_mean(x, 1)
        assert_same_bits(both[0], ops.var(x, 1))
        assert_same_bits(both[1], ops.mean(x, 1))
        assert_same_bits(roots[0], ops.std(x, 1))
        assert_same_bits(roots[1], ops.mean(x, 1))


def test_var__two_passes_keep_what_one_loses() -> None:
    x = torch.tensor([4097.0, 4096.0, 4095.0])
    assert ops.var(x).item() == 1.0
    assert ops.var(torch.ones(1)).isnan() and ops.var(uniform(1, 3), correction=5).item() == math.inf


def test_std__the_derivative_at_0_is_0() -> None:
    x = torch.ones(4, requires_grad=True)
    (ours,) = torch.autograd.grad(ops.std(x), x)
    (theirs,) = torch.autograd.grad(torch.std(x), x)
    assert ours.tolist() == theirs.tolist() == [0.0] * 4


def test_var__derivatives() -> None:
    x = uniform(1, 3, 5).double().requires_grad_()
    for function in (ops.var, ops.std):
        assert torch.autograd.gradcheck(lambda t: function(t, 1), x)
        assert torch.autograd.gradgradcheck(lambda t: function(t, 1), x)


def test_var__a_row_is_that_of_its_batch() -> None:
    x = uniform(1, 40, 1500)
    for function in (ops.var, ops.std):
        assert_same_bits(function(x[3:4], 1), function(x, 1)[3:4])


def test_var__rejects() -> None:
    x = uniform(1, 2, 3)
    for name in NAMES:
        ours, theirs = getattr(ops, name), getattr(torch, name)
        assert_rejected(lambda: ours(x, 2), IndexError, f"{name}: dim is 2", by_torch=lambda: theirs(x, 2))
        assert_rejected(lambda: ours(x, (0, 0)), ValueError, f"{name}: dim", by_torch=lambda: theirs(x, (0, 0)))
        assert_rejected(lambda: ours(x.int()), TypeError, f"{name}: input.dtype", by_torch=lambda: theirs(x.int()))
        assert_rejected(lambda: ours(x, True, correction=1), ValueError, f"{name}: unbiased is True")
        assert_rejected(lambda: ours(x, correction="1"), TypeError, f"{name}: correction")
