"""Second and third derivatives of the losses over class indices: torch in float64, and every backend's bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import repdl
from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import U, assert_within, derivatives, gamma

SHAPES = ((5, 3), (4, 7, 3, 2))
REDUCTIONS = ("none", "mean", "sum")
IGNORE = -100


def variants() -> Iterator[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
    """Logits, targets of which some are ignored, and options."""
    for shape in SHAPES:
        for reduction in REDUCTIONS:
            for weight in (None, uniform(3, shape[1]).abs() + 0.5):
                target = index(2, shape[1], shape[0], *shape[2:])
                target.view(-1)[1::3] = IGNORE
                yield uniform(1, *shape, scale=4.0), target, {"weight": weight, "reduction": reduction}


def function(name: str, module: Any, target: torch.Tensor, options: dict[str, Any]) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        weight = options["weight"]
        chosen = {**options, "weight": None if weight is None else weight.to(x.dtype)}
        return getattr(module, name)(x, target, **chosen)

    return run


def cotangents(x: torch.Tensor, target: torch.Tensor, reduction: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of the loss and of its gradient."""
    return uniform(5, *(target.shape if reduction == "none" else ())), uniform(6, *x.shape)


def sizes(x: torch.Tensor, target: torch.Tensor, g: torch.Tensor, u: torch.Tensor, options: dict[str, Any]) -> Any:
    """The sums of the magnitudes of all terms of the second derivatives to x and to the gradient g of the loss."""
    x, g, u = x.double(), g.double().abs(), u.double().abs()
    weight = options["weight"]
    counted = target != IGNORE
    scale = counted.double() if weight is None else counted * weight.double()[target.clamp(min=0)]
    if options["reduction"] == "mean":
        scale = scale / scale.sum()
    p = x.softmax(1)
    spread = u + (u * p).sum(1, keepdim=True)
    of_targets = spread.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1) * scale
    to_x = p * spread * (g * scale).unsqueeze(1)
    return to_x, of_targets if options["reduction"] == "none" else of_targets.sum()


def test_cross_entropy__second_derivatives() -> None:
    for x, target, options in variants():
        g, u = cotangents(x, target, options["reduction"])
        exact = derivatives(function("cross_entropy", F, target, options), [x.double()], g.double(), [u.double()])
        actual = derivatives(function("cross_entropy", ops, target, options), [x], g, [u])
        # p has the error of x - m, at most 8 units as |x| <= 4, and C + 3 roundings; the sum of u * p as many more and
        # C + 1; then come 5 at most, and sums of C or N terms.
        classes, positions = x.shape[1], target.numel()
        bound = gamma(2 * (classes + 11) + 2 * classes + 2 * positions + 6)
        for number, (a, e, size) in enumerate(zip(actual[2:], exact[2:], sizes(x, target, g, u, options))):
            assert_within(a, e, bound * size, f"{tuple(x.shape)} {options} derivative {number}")


def test_nll_loss__second_derivatives() -> None:
    for x, target, options in variants():
        g, u = cotangents(x, target, options["reduction"])
        run = [function("nll_loss", module, target, options) for module in (ops, F)]
        actual = derivatives(run[0], [x], g, [u])
        exact = derivatives(run[1], [x.double()], g.double(), [u.double()])
        assert not actual[2].any() and not exact[2].any()
        size = run[1](-u.abs().double())  # a sum of products, as the loss is: the weights are positive
        assert_within(actual[3], exact[3], gamma(2 * target.numel() + 3) * size, f"{tuple(x.shape)} {options}")


def test_losses__second_derivatives_of_ignored_rows_are_zeros() -> None:
    x, target = uniform(1, 4, 3), torch.tensor([0, IGNORE, 2, IGNORE])
    for name in ("cross_entropy", "nll_loss"):
        options = {"weight": None, "reduction": "sum"}
        _, _, to_x, _ = derivatives(function(name, ops, target, options), [x], uniform(5), [uniform(6, 4, 3)])
        assert not to_x[1::2].any()
        _, _, _, to_g = derivatives(
            function(name, ops, target[1::2], {"weight": None, "reduction": "none"}), [x[1::2]], *second(x[1::2])
        )
        assert not to_g.any()


def second(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return uniform(5, x.shape[0]), [uniform(6, *x.shape)]


def test_cross_entropy__third_derivative() -> None:
    # Against torch in float64; the terms are products of at most 3 probabilities and 2 cotangents below 1.
    for x, target, options in variants():
        thirds = []
        for module, dtype in ((ops, torch.float32), (F, torch.float64)):
            leaf = x.to(dtype).requires_grad_()
            loss = function("cross_entropy", module, target, options)(leaf)
            (first,) = torch.autograd.grad(loss.sum(), leaf, create_graph=True)
            (again,) = torch.autograd.grad(first, leaf, uniform(6, *x.shape).to(dtype), create_graph=True)
            thirds += torch.autograd.grad(again, leaf, uniform(7, *x.shape).to(dtype))
        weight = 1.0 if options["weight"] is None else 1.5
        assert thirds[1].abs().max() > 2.0**-8
        assert_within(thirds[0], thirds[1], 64 * (x.shape[1] + 11) * weight * U, f"{tuple(x.shape)} {options}")


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_losses__second_derivatives_have_the_same_bits_on_every_backend(name: str) -> None:
    backends = [n for n, info in repdl.backends().items() if info.device == "cpu"]
    assert {"cpu", "reference"} <= set(backends)
    dtypes = [torch.float32, torch.bfloat16] + [torch.float64] * (name == "nll_loss")
    for x, target, options in variants():
        g, u = cotangents(x, target, options["reduction"])
        for contract in ("v1", "sequential"):
            for dtype in dtypes:
                results = []
                for backend in backends:
                    with repdl.use_backend(backend), repdl.use_contract(contract):
                        run = function(name, ops, target, options)
                        results.append(derivatives(run, [x.to(dtype)], g.to(dtype), [u.to(dtype)]))
                assert all(t.dtype is dtype for t in results[0])
                for result in results[1:]:
                    assert_same_bits(results[0], result, f"{dtype} {contract} {tuple(x.shape)} {options}")


def test_losses__second_derivatives_are_those_of_the_formula() -> None:
    # cross_entropy.md, Backward, operation by operation; a row at a time would give other sums.
    x, target = uniform(1, 6, 5, scale=4.0), index(2, 5, 6)
    for reduction in REDUCTIONS:
        g, u = cotangents(x, target, reduction)
        _, _, to_x, to_g = derivatives(
            function("cross_entropy", ops, target, {"weight": None, "reduction": reduction}), [x], g, [u]
        )
        p = ops.softmax(x, 1)
        v = ops.sub(u, ops.sum(ops.mul(u, p), 1, keepdim=True))
        each = ops.div(g, 6) if reduction == "mean" else g
        scale = each.expand(6).unsqueeze(1)
        assert_same_bits(to_x, ops.mul(ops.mul(p, v), scale))
        assert_same_bits(to_g, ops.nll_loss(v, target, reduction=reduction))


def test_losses__second_derivatives_under_torch_func() -> None:
    x, target = uniform(1, 3, 4), index(2, 4, 3)

    def penalty(x: torch.Tensor) -> torch.Tensor:
        gradient = torch.func.grad(lambda x: ops.cross_entropy(x, target))(x)
        return ops.sum(ops.square(gradient))

    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(ops.cross_entropy(leaf, target), leaf, create_graph=True)
    (expected,) = torch.autograd.grad(ops.sum(ops.square(gradient)), leaf)
    assert expected.any()
    assert_same_bits(torch.func.grad(penalty)(x), expected)
