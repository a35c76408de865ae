"""unfold and fold: against torch, the order of sums, derivatives, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_multilinear, assert_rejected

OPTIONS: list[tuple[Any, ...]] = [
    (2,), (3, 1, 1), ((3, 2), 1, (1, 0), (2, 1)), ((2, 3), (2, 1), 1, 2), ((1, 1), 1, 2, 3), ((7, 6),), (2, 1, 0, 3),
]  # fmt: skip
"""kernel_size, dilation, padding, stride."""


def test_unfold__moves_bits_as_torch() -> None:
    for shape in ((2, 3, 7, 6), (3, 7, 6), (0, 3, 7, 6)):
        x = uniform(1, *shape, special=True)
        for options in OPTIONS:
            assert_same_bits(ops.unfold(x, *options), F.unfold(x, *options))
            for dtype in (torch.bfloat16, torch.float64):
                assert_same_bits(ops.unfold(x.to(dtype), *options), F.unfold(x.to(dtype), *options))


def test_fold__as_torch() -> None:
    for options in OPTIONS:
        for lead in ((2,), ()):
            x = F.unfold(uniform(1, *lead, 3, 7, 6), *options)
            assert_multilinear(
                lambda t, o=options: ops.fold(t, (7, 6), *o),
                lambda t, o=options: F.fold(t, (7, 6), *o),
                [uniform(2, *x.shape)],
                20,
                uniform(3, *lead, 3, 7, 6),
            )


def test_unfold__derivatives() -> None:
    for options in OPTIONS[1:4]:
        x = uniform(1, 1, 2, 7, 6).double().requires_grad_()
        function = lambda t, o=options: ops.unfold(ops.mul(t, t), *o)
        assert torch.autograd.gradcheck(function, x, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, x, fast_mode=True)
        assert_multilinear(
            lambda t, o=options: ops.unfold(t, *o),
            lambda t, o=options: F.unfold(t, *o),
            [uniform(1, 2, 3, 7, 6)],
            20,
            uniform(3, *ops.unfold(uniform(1, 2, 3, 7, 6), *options).shape),
        )


@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_fold__sums_in_ascending_order_of_windows(contract: str) -> None:
    """Windows p - 89 to p of 90 elements lie on element p of a row: each gives another element of its own."""
    x = uniform(1, 90, 200) * 2.0 ** (torch.arange(200) * 7 % 30)
    result = ops.fold(x, (1, 289), (1, 90), contract=contract)
    places = range(89, 200)
    terms = torch.stack([torch.stack([x[p - w, w] for w in range(p - 89, p + 1)]) for p in places])
    assert_same_bits(result[0, 0, 89:200], ops.sum(terms, 1, contract=contract))
    leaf = uniform(2, 1, 1, 289).requires_grad_()
    ops.unfold(leaf, (1, 90), contract=contract).backward(x)
    assert_same_bits(leaf.grad, result)
    other = torch.cat([terms[:, ::2], terms[:, 1::2]], 1)
    assert not torch.equal(ops.sum(other, 1, contract=contract), result[0, 0, 89:200])


def test_fold__batch_slice() -> None:
    x = uniform(1, 5, 12, 30)
    for i in range(5):
        assert_same_bits(ops.fold(x[i], (6, 7), 2), ops.fold(x, (6, 7), 2)[i])


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_unfold__compiled_and_transformed(dynamic: bool) -> None:
    torch._dynamo.reset()
    function = lambda t: ops.fold(ops.mul(ops.unfold(t, 3, 1, 1, 2), 0.3), (7, 6), 3, 1, 1, 2)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for batch in (2, 3):
        x = uniform(1, batch, 3, 7, 6).requires_grad_()
        expected, actual = function(x), compiled(x)
        assert_same_bits(actual.detach(), expected.detach())
        grads = [torch.autograd.grad(o, x, uniform(2, batch, 3, 7, 6))[0] for o in (actual, expected)]
        assert_same_bits(*grads)
    assert_same_bits(torch.func.vmap(function)(x), function(x).detach())


def test_unfold__rejects() -> None:
    x, y = uniform(1, 2, 3, 7, 6), uniform(2, 2, 12, 30)
    for call, by_torch, words in (
        (lambda f: f(x[0, 0], 2), "unfold", "input.dim() is 2"),
        (lambda f: f(x, 8), "unfold", "kernel_size is (8, 8)"),
        (lambda f: f(x, 0), "unfold", "kernel_size is (0, 0)"),
        (lambda f: f(x, 2, 0), "unfold", "dilation is (0, 0)"),
        (lambda f: f(x, 2, 1, -1), "unfold", "padding is (-1, -1)"),
        (lambda f: f(x, 2, 1, 0, 0), "unfold", "stride is (0, 0)"),
        (lambda f: f(x, (2, 2, 2)), "unfold", "kernel_size is (2, 2, 2)"),
        (lambda f: f(x[:, :0], 2), "unfold", "expected 0 for the batch only"),
        (lambda f: f(y, (7, 6), 3), "fold", "input.shape[-2] is 12, expected a multiple of 9"),
        (lambda f: f(y, (7, 7), 2), "fold", "input.shape[-1] is 30, expected 36"),
        (lambda f: f(y, (1, 6), 2), "fold", "kernel_size is (2, 2)"),
        (lambda f: f(y, (0, 6), 2), "fold", "output_size is (0, 6)"),
        (lambda f: f(y[0, 0], (7, 6), 2), "fold", "input.dim() is 1"),
    ):
        assert_rejected(
            lambda: call(getattr(ops, by_torch)), ValueError, words, by_torch=lambda: call(getattr(F, by_torch))
        )
    assert_rejected(lambda: ops.unfold(x.long(), 2), TypeError, "input.dtype is int64")
    assert_rejected(lambda: ops.unfold(x, 2.0), TypeError, "kernel_size")  # type: ignore[arg-type]
