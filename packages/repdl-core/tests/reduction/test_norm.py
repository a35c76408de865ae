"""What is particular to norms: orders, zeros, shared gradients, distances."""

from __future__ import annotations

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.registry import functions
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits, generated, uniform
from repdl.testing.dtypes import in_dtype
from repdl.testing.oracle import assert_rejected

INF = float("inf")


@pytest.mark.parametrize("order", [2, 1, 0, INF, -INF, 3, 0.5, -1, 2.5])
def test_norm__gradients_at_zeros_are_torchs(order: float) -> None:
    """Of rows of zeros, and of zeros among others; a fractional power at most 8 roundings off."""
    for x in (torch.tensor([[3.0, -4.0, 1.0], [1.0, 0.0, 2.0], [2.0, -2.0, 2.0]]), torch.zeros(1, 3)):
        if order < 0 and bool((x == 0).any()) and order != -INF:
            continue  # torch's is NaN there
        ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
        actual, exact = ops.vector_norm(ours, order, 1), torch.linalg.vector_norm(theirs, order, 1)
        weights = torch.arange(1.0, x.shape[0] + 1)
        (a,) = torch.autograd.grad(actual, ours, weights)
        (e,) = torch.autograd.grad(exact, theirs, weights.double(), allow_unused=True, materialize_grads=True)
        assert ((actual - exact).abs() <= 2.0**-20 * exact.abs()).all()
        assert ((a - e).abs() <= 2.0**-20 * e.abs().clamp(min=1)).all(), (a, e)


def test_root__zeros_have_no_sign_and_no_slope() -> None:
    """Zeros of both signs, NaN, infinities, subnormal and negative numbers."""
    special = torch.cat([generated.specials(), uniform(1, 300).abs(), uniform(2, 300, scale=2.0**-130)])
    for dtype in (torch.float32, torch.float64):
        x = in_dtype(special, dtype)
        for backend in repdl.backends():
            if repdl.backends()[backend].error is None and get_backend(backend).device == "cpu":
                with repdl.use_backend(backend):
                    leaf = x.clone().requires_grad_()
                    y = functions.root(leaf)
                    (slope,) = torch.autograd.grad(y, leaf, torch.full_like(x, -3.0))
                found, zero = y.detach(), x == 0
                assert zero.sum() >= 2 and not found[zero].signbit().any()
                assert (slope[zero] == 0).all() and not slope[zero].signbit().any()
                assert_same_bits(found[~zero], ops.sqrt(x)[~zero], f"{backend}, {dtype}")
                assert ((found > 0) & (x < torch.finfo(dtype).tiny)).any(), "of a subnormal number"


def test_norm__nan_counts() -> None:
    assert ops.vector_norm(torch.tensor([float("nan"), 0.0, -0.0, 1e-45]), 0).item() == 2.0


def test_norm__is_vector_norm() -> None:
    x = uniform(1, 4, 5)
    for p in ("fro", None, 2):
        assert_same_bits(ops.norm(x, p), ops.vector_norm(x))
    assert_same_bits(ops.norm(x, 1, (0, 1), True), ops.vector_norm(x, 1, (0, 1), True))
    assert ops.norm(x.half(), dtype=torch.float32).dtype == torch.float32


def test_norm__float64() -> None:
    x = uniform(1, 3, 5).double().requires_grad_()
    for order in (2, 1, 3, INF):
        assert torch.autograd.gradcheck(lambda t: ops.vector_norm(t, order, 1), x)
        assert torch.autograd.gradgradcheck(lambda t: ops.vector_norm(t, order, 1), x)


def test_cdist__differences_are_computed_first() -> None:
    a, b = torch.tensor([[4096.0, 1.0]]), torch.tensor([[4096.0, 1.0 + 2.0**-20], [4096.0, 1.0]])
    for mode in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        assert ops.cdist(a, b, compute_mode=mode).tolist() == [[2.0**-20, 0.0]]
    x = uniform(1, 3, 1, 5, 4).requires_grad_()
    y = uniform(2, 2, 6, 4)
    found = ops.cdist(x, y)
    assert found.shape == (3, 2, 5, 6)
    (grad,) = torch.autograd.grad(found, x, torch.ones_like(found))
    assert_same_bits(found[1, 1, 2, 3], ops.vector_norm(ops.sub(x[1, 0, 2], y[1, 3])))
    assert grad.shape == x.shape


def test_norm__rejects() -> None:
    x = uniform(1, 2, 3)
    assert_rejected(lambda: ops.norm(x, "nuc"), UnsupportedError, "norm: p is 'nuc'")
    assert_rejected(lambda: ops.norm(x, out=x), UnsupportedError, "norm: out")
    assert_rejected(lambda: ops.vector_norm(x, 2, 5), IndexError, "vector_norm: dim is 5")
    empty = x[:, :0]
    assert_rejected(
        lambda: ops.vector_norm(empty, INF, 1),
        ValueError,
        "vector_norm: ord is inf",
        by_torch=lambda: torch.linalg.vector_norm(empty, INF, 1),
    )
    assert_rejected(
        lambda: ops.cdist(x, uniform(1, 2, 4)), ValueError, "x2.shape", by_torch=lambda: torch.cdist(x, x[:, :2])
    )
    assert_rejected(
        lambda: ops.cdist(x, x, -1.0), ValueError, "cdist: p is -1.0", by_torch=lambda: torch.cdist(x, x, -1)
    )
    assert_rejected(lambda: ops.cdist(x, x, compute_mode="fast"), ValueError, "compute_mode is 'fast'")
