"""Ops in float64: torch's values within the error bound, and gradcheck of every formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.registry import OPS
from repdl.registry.backend import use_backend
from repdl.testing import assert_same_bits, uniform

Function = Callable[..., torch.Tensor]
U = 2.0**-53


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with use_backend("reference"):
        yield


def double(seed: int, *shape: int) -> torch.Tensor:
    """All 53 bits, away from 0 and from equal elements."""
    x = uniform(seed, *shape).double()
    return x + torch.where(x < 0, -0.2, 0.2) + uniform(seed + 100, *shape).double() * 2.0**-28


def positive(seed: int, *shape: int) -> torch.Tensor:
    return double(seed, *shape).abs()


X = (4, 6)
# ours, torch's, arguments, and roundings that one output passes through at most.
FUNCTIONS: dict[str, tuple[Function, Function, tuple[torch.Tensor, ...], int]] = {
    "mm": (ops.mm, torch.mm, (double(1, 5, 7), double(2, 7, 3)), 8),
    "bmm": (ops.bmm, torch.bmm, (double(1, 2, 5, 7), double(2, 2, 7, 3)), 8),
    "matmul": (ops.matmul, torch.matmul, (double(1, 3, 5, 7), double(2, 7)), 8),
    "addmm": (
        lambda *t: ops.addmm(*t, beta=0.3, alpha=0.7),
        lambda *t: torch.addmm(*t, beta=0.3, alpha=0.7),
        (double(3, 3), double(1, 5, 7), double(2, 7, 3)),
        11,
    ),
    "linear": (ops.linear, F.linear, (double(1, 4, 6), double(2, 3, 6), double(3, 3)), 8),
    "conv2d": (
        lambda *t: ops.conv2d(*t, 2, 1),
        lambda *t: F.conv2d(*t, 2, 1),
        (double(1, 2, 3, 5, 5), double(2, 4, 3, 3, 3), double(3, 4)),
        29,
    ),
    "sum": (lambda x: ops.sum(x, 0), lambda x: torch.sum(x, 0), (double(1, 9, 5),), 10),
    "mean": (ops.mean, torch.mean, (double(1, *X),), 26),
    "max": (ops.max, torch.max, (double(1, *X),), 1),
    "max_dim": (lambda x: ops.max(x, 1)[0], lambda x: torch.max(x, 1)[0], (double(1, *X),), 1),
    "max_pool2d": (lambda x: ops.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2), (double(1, 1, 2, 4, 4),), 4),
    "pad": (
        lambda x: ops.pad(x, (2, 1), "circular"),
        lambda x: F.pad(x, (2, 1), "circular"),
        (double(1, 1, 2, 4),),
        3,
    ),
    "nll_loss": (
        lambda x, w: ops.nll_loss(x, torch.arange(4), w),
        lambda x, w: F.nll_loss(x, torch.arange(4), w),
        (double(1, *X), positive(2, 6)),
        20,
    ),
    "add": (lambda *t: ops.add(*t, alpha=0.3), lambda *t: torch.add(*t, alpha=0.3), (double(1, *X), double(2, 6)), 3),
    **{
        name: (getattr(ops, name), getattr(torch, name), (double(1, *X), double(2, 6)), 4)
        for name in ("sub", "mul", "div", "maximum", "minimum")
    },
    **{name: (getattr(ops, name), getattr(torch, name), (positive(1, *X),), 4) for name in ("sqrt", "reciprocal")},
    **{
        name: (getattr(ops, name), getattr(torch, name), (double(1, *X),), 3)
        for name in ("abs", "neg", "relu", "sign", "square")
    },
}
NORMS: dict[str, tuple[Function, Function, tuple[torch.Tensor, ...]]] = {
    "layer_norm": (
        lambda x, w, b: ops.layer_norm(x, [6], w, b),
        lambda x, w, b: F.layer_norm(x, [6], w, b),
        (double(1, *X), double(2, 6), double(3, 6)),
    ),
    "rms_norm": (
        lambda x, w: ops.rms_norm(x, [6], w),
        lambda x, w: F.rms_norm(x, [6], w),
        (double(1, *X), double(2, 6)),
    ),
    "group_norm": (
        lambda x, w, b: ops.group_norm(x, 2, w, b),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        (double(1, 3, 4, 5), double(2, 4), double(3, 4)),
    ),
    "batch_norm": (
        lambda x, w, b: ops.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        (double(1, 5, 3, 2), double(2, 3), double(3, 3)),
    ),
}


def with_gradients(function: Function, tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    output = function(*leaves)
    wanted = [leaf for leaf in leaves if not (output.dim() == 0 and leaf is leaves[-1] and len(leaves) == 2)]
    grads = torch.autograd.grad(output, wanted, positive(9, *output.shape), allow_unused=True)
    return [output.detach(), *(g for g in grads if g is not None)]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "nll_loss"])
def test_float64__torchs_values(name: str) -> None:
    ours, theirs, tensors, roundings = FUNCTIONS[name]
    actual, expected = with_gradients(ours, tensors), with_gradients(theirs, tensors)
    # Both are within roundings * U of the exact value, relative to the sum of the terms' magnitudes:
    # for at most 64 terms that are below 16 in magnitude (1 / 0.2, squared, is 25 for div).
    for number, (a, e) in enumerate(zip(actual, expected)):
        assert a.dtype is torch.float64
        assert (a - e).abs().max() <= 2 * (roundings + 30) * U * 64 * 25, f"{name}, output {number}"


@pytest.mark.parametrize("name", NORMS)
def test_float64__torchs_norms(name: str) -> None:
    ours, theirs, tensors = NORMS[name]
    for a, e in zip(with_gradients(ours, tensors), with_gradients(theirs, tensors)):
        # Some forty roundings, and a division by a standard deviation of about 1/2 or more.
        assert (a - e).abs().max() <= 200 * U * max(1.0, e.abs().max().item())


@pytest.mark.parametrize("name", [*FUNCTIONS, *NORMS])
def test_float64__gradcheck(name: str) -> None:
    function, _, tensors, *_ = (FUNCTIONS | NORMS)[name]  # type: ignore[operator]
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    if name == "nll_loss":
        leaves[1].requires_grad_(False)  # has no derivative with respect to the weight
    assert torch.autograd.gradcheck(function, leaves)


def test_float64__numbers_keep_all_bits() -> None:
    one = torch.ones(1, dtype=torch.float64)
    assert ops.mul(one, 0.1).item() == 0.1
    assert ops.add(one, 2**53 - 2).item() == 2**53 - 1


def test_float64__forbidden_rewrite_by_way_of_float32() -> None:
    x = torch.tensor([[1 + 2.0**-40]], dtype=torch.float64)
    assert ops.mm(x, x).item() == 1 + 2.0**-39


def test_float64__float32_numbers_that_need_no_rounding_give_the_same() -> None:
    a, b = (torch.randint(-9, 9, (6, 6), generator=torch.Generator().manual_seed(s)).float() for s in (1, 2))
    for function in (ops.mm, ops.add, ops.mul, ops.maximum, lambda x, y: ops.sum(ops.sub(x, y), 1)):
        assert_same_bits(ops.cast(function(a, b), torch.float64), function(a.double(), b.double()))


def test_float64__every_op_that_takes_it_has_a_case() -> None:
    from repdl.testing import cases

    having = {c.op for c in cases() if c.derived is torch.float64}
    taking = {o.name for o in OPS.values() if o.mutates or (o.storage and torch.float64 in o.storage.dtypes.supported)}
    assert having == taking
