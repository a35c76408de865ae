"""What is particular to distances: torch's values and derivatives, small norms, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

CALLS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "normalize": (lambda m, x: m.normalize(x), [(6, 5)]),
    "normalize p": (lambda m, x: m.normalize(x, 3.0, 0), [(6, 5)]),
    "normalize inf": (lambda m, x: m.normalize(x, float("inf"), -1), [(6, 5)]),
    "normalize one": (lambda m, x: m.normalize(x, 1.0, dim=0), [(5,)]),
    "cosine": (lambda m, x, y: m.cosine_similarity(x, y), [(6, 5), (6, 5)]),
    "cosine dim": (lambda m, x, y: m.cosine_similarity(x, y, 0), [(6, 5), (6, 1)]),
    "cosine broadcast": (lambda m, x, y: m.cosine_similarity(x, y, -1), [(4, 1, 5), (6, 5)]),
    "distance": (lambda m, x, y: m.pairwise_distance(x, y), [(6, 5), (6, 5)]),
    "distance p": (lambda m, x, y: m.pairwise_distance(x, y, 1.0, 0.0, True), [(6, 5), (5,)]),
    "distance inf": (lambda m, x, y: m.pairwise_distance(x, y, float("inf")), [(6, 5), (6, 5)]),
    "distance 3": (lambda m, x, y: m.pairwise_distance(x, y, 3.0), [(5,), (5,)]),
}


def test_distance__values_and_derivatives() -> None:
    for name, (call, shapes) in CALLS.items():
        tensors = [uniform(i, *shape) for i, shape in enumerate(shapes, 1)]
        grad = uniform(7, *call(F, *tensors).shape)
        actual, exact = (
            derivatives(lambda *t: call(m, *t), [t.to(d) for t in tensors], grad.to(d))
            for m, d in ((ops, torch.float32), (F, torch.float64))
        )
        for a, e in zip(actual, exact):
            # Norms of 0.5 and more of 5 or 6 elements; a gradient has 4 roundings of each and a sum of up to 6.
            assert_within(a, e, 60 * U * 8, name)


def test_distance__float64() -> None:
    x, y = uniform(1, 4, 5).double(), uniform(2, 4, 5).double()
    for name, (call, shapes) in CALLS.items():
        if "3" not in name and name != "normalize p" and all(s == (6, 5) for s in shapes):
            given = [x, y][: len(shapes)]
            assert torch.autograd.gradcheck(lambda *t: call(ops, *t), [t.clone().requires_grad_() for t in given]), name
            torch.testing.assert_close(call(ops, *given), call(F, *given), rtol=2.0**-48, atol=2.0**-48)


def test_distance__halves_are_rounded_once() -> None:
    x, y = uniform(1, 6, 50).bfloat16(), uniform(2, 6, 50).bfloat16()
    for function in (ops.cosine_similarity, ops.pairwise_distance):
        assert_same_bits(function(x, y), ops.cast(function(x.float(), y.float()), torch.bfloat16))
    assert_same_bits(ops.normalize(x), ops.cast(ops.normalize(x.float()), torch.bfloat16))


def test_distance__of_zeros() -> None:
    """A norm below eps counts as eps and has no derivative."""
    zeros, x = torch.zeros(2, 3, requires_grad=True), uniform(1, 2, 3)
    for function in (ops.normalize, lambda t: ops.cosine_similarity(t, x, eps=0.5), ops.pairwise_distance):
        call = function if function is not ops.pairwise_distance else lambda t: ops.pairwise_distance(t, t, eps=0.0)
        (grad,) = torch.autograd.grad(ops.sum(call(zeros)), zeros)
        assert grad.isfinite().all()
    assert (ops.normalize(zeros) == 0).all()


def test_distance__the_derivative_of_what_is_broadcast_is_the_contracts_sum() -> None:
    x, y = uniform(1, 1500, 3), uniform(2, 1, 3).requires_grad_()
    each = y.detach().repeat(1500, 1).requires_grad_()
    grad = uniform(3, 1500)
    for function in (ops.cosine_similarity, ops.pairwise_distance):
        (got,) = torch.autograd.grad(function(x, y), y, grad)
        (parts,) = torch.autograd.grad(function(x, each), each, grad)
        assert_same_bits(got, ops.sum(parts, 0, keepdim=True))
        assert not torch.equal(got, parts.sum(0, keepdim=True))  # torch's order is another


def test_distance__rejects() -> None:
    x, y = uniform(1, 4, 3), uniform(2, 4, 5)
    assert_rejected(lambda: ops.normalize(x, dim=2), IndexError, "dim is 2", by_torch=lambda: F.normalize(x, dim=2))
    assert_rejected(lambda: ops.normalize(x, out=x), UnsupportedError, "out is given")  # type: ignore[arg-type]
    for name in ("cosine_similarity", "pairwise_distance"):
        by_torch = lambda: getattr(F, name)(x, y)
        assert_rejected(lambda: getattr(ops, name)(x, y), ValueError, f"{name}: x1.shape is", by_torch=by_torch)
