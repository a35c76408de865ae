"""Functions that repeat or select elements in torch's ways: order of the derivative, torch's machinery, errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import repdl
from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import assert_rejected

AT = torch.tensor([2, 0, -1, 2])
FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "expand": (lambda x: ops.expand(x, (3, -1, 5)), lambda x: x.expand(3, -1, 5)),
    "broadcast_to": (lambda x: ops.broadcast_to(x[:, :1], (2, 4, 6)), lambda x: x[:, :1].broadcast_to(2, 4, 6)),
    "repeat": (lambda x: ops.repeat(x, (2, 1, 3)), lambda x: x.repeat(2, 1, 3)),
    "tile": (lambda x: ops.tile(x, (2,)), lambda x: x.tile(2)),
    "repeat_interleave": (lambda x: ops.repeat_interleave(x, 2, 1), lambda x: x.repeat_interleave(2, 1)),
    "repeat_interleave, all": (lambda x: ops.repeat_interleave(x, 3), lambda x: x.repeat_interleave(3)),
    "repeat_interleave, each": (
        lambda x: ops.repeat_interleave(x, torch.tensor([1, 2, 0, 1]), 0),
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 1]), 0),
    ),
    "index": (lambda x: ops.index(x, (AT,)), lambda x: x[AT]),
    "index, columns": (lambda x: ops.index(x, (None, AT)), lambda x: x[:, AT]),
    "index, pairs": (lambda x: ops.index(x, (AT[:, None], AT[:2])), lambda x: x[AT[:, None], AT[:2]]),
    "take": (lambda x: ops.take(x, AT.view(2, 2)), lambda x: x.take(AT.view(2, 2))),
}
"""Of x (4, 5): ours and torch's."""

every_function = pytest.mark.parametrize("name", FUNCTIONS)


@every_function
def test_expand__bits_derivatives_and_audit(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool):
        x = (uniform(1, 4, 5) * 9).to(dtype)
        assert torch.equal(ours(x), theirs(x)), dtype
    x = uniform(2, 4, 5).requires_grad_()
    report = repdl.audit(ours, x)
    assert report.ok, report
    squares = lambda t: ops.mul(ours(t), ours(t))
    double = x.detach().double().requires_grad_()
    assert torch.autograd.gradcheck(squares, double, fast_mode=True)
    assert torch.autograd.gradgradcheck(squares, double, fast_mode=True)
    rows = torch.func.vmap(torch.func.grad(lambda t: ops.sum(squares(t))))(torch.stack([x.detach(), double.float()]))
    assert_same_bits(rows[1], torch.autograd.grad(ops.sum(squares(x)), x)[0])


@every_function
def test_expand__compiled(name: str) -> None:
    function, _ = FUNCTIONS[name]
    torch._dynamo.reset()
    x = uniform(2, 4, 5).requires_grad_()
    expected, actual = function(x), torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)(x)
    assert_same_bits(actual.detach(), expected.detach())
    assert_same_bits(*(torch.autograd.grad(o, x, expected.detach())[0] for o in (actual, expected)))


@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_expand__derivatives_are_sums_of_the_contract(contract: str) -> None:
    x = uniform(1, 3, 4).requires_grad_()
    g = uniform(2, 700, 3, 4)
    (grad,) = torch.autograd.grad(ops.expand(x, (700, 3, 4), contract=contract), x, g)
    assert_same_bits(grad, ops.sum(g, 0, contract=contract))
    (grad,) = torch.autograd.grad(ops.repeat(x, (700, 1, 1), contract=contract), x, g)
    assert_same_bits(grad, ops.sum(g, 0, contract=contract))
    (grad,) = torch.autograd.grad(ops.repeat_interleave(x, 700, 0, contract=contract), x, g.view(2100, 4))
    assert_same_bits(grad, ops.sum(g.view(3, 700, 4), 1, contract=contract))
    at = index(3, 3, 900)
    g = uniform(4, 900, 4)
    for found in (ops.index(x, (at,), contract=contract), ops.index(x, (at, None), contract=contract)):
        (grad,) = torch.autograd.grad(found, x, g)
        assert_same_bits(grad[1], ops.sum(g[at == 1], 0, contract=contract))
    (grad,) = torch.autograd.grad(ops.take(x, at, contract=contract), x, g[:, 0])
    assert_same_bits(grad[0, 1], ops.sum(g[at == 1, 0], 0, contract=contract))


def test_expand__audit_names_the_functions() -> None:
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "expand": lambda x: x.expand(3, 4, 5).clone(),
        "repeat": lambda x: x.repeat(3, 1),
        "index": lambda x: x[AT],
        "take": lambda x: x.take(AT),
    }
    for name, call in calls.items():
        report = repdl.audit(call, uniform(1, 4, 5).requires_grad_())
        assert [row.remedy for row in report.refused] == [f"repdl.ops.{name}"], report


def test_expand__what_stays_torchs_own_is_reproducible_forward_and_backward() -> None:
    """Data movement and exact functions have no counterpart, and need none."""
    mask, at = uniform(3, 4, 5) > 0, torch.tensor([2, 0])
    calls: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "index_copy": lambda x, y: x.index_copy(0, at, y[:2]),
        "index_fill": lambda x, y: x.index_fill(0, at, 1.0),
        "masked_fill": lambda x, y: x.masked_fill(mask, 0.0),
        "masked_scatter": lambda x, y: x.masked_scatter(mask, y),
        "masked_select": lambda x, y: x.masked_select(mask),
        "nan_to_num": lambda x, y: x.nan_to_num(),
        "frac": lambda x, y: x.frac(),
        "copysign": lambda x, y: x.copysign(y),
        "heaviside": lambda x, y: x * torch.heaviside(x.detach(), y.detach()),
        "count_nonzero": lambda x, y: x * x.count_nonzero(),
        "rot90": lambda x, y: x.rot90().clone(),
        "scatter": lambda x, y: x.scatter(1, at.expand(4, 2), y[:, :2]),
        "block_diag": lambda x, y: torch.block_diag(x, y),
    }
    for name, call in calls.items():
        x, y = (uniform(k, 4, 5).requires_grad_() for k in (1, 2))
        report = repdl.audit(call, x, y)
        assert call(x, y).requires_grad and report.ok, f"{name}: {report}"


def test_expand__index_takes_masks() -> None:
    x = uniform(1, 4, 5).requires_grad_()
    mask = x.detach() > 0
    assert_same_bits(ops.index(x, (mask,)).detach(), x.detach()[mask])
    (grad,) = torch.autograd.grad(ops.index(x, (mask[:, 0],)), x, torch.ones(int(mask[:, 0].sum()), 5))
    assert torch.equal(grad, mask[:, :1].float().expand(4, 5))


def test_expand__rejects() -> None:
    x, n = uniform(1, 4, 5), torch.tensor([1, 2])
    for call, kind, words, theirs in (
        (lambda: ops.expand(x, (5,)), ValueError, "size has 1 dimensions", lambda: x.expand(5)),
        (lambda: ops.expand(x, (4, 6)), ValueError, "size[1] is 6, expected 5", lambda: x.expand(4, 6)),
        (lambda: ops.expand(x, (-1, 4, 5)), ValueError, "size[0] is -1", lambda: x.expand(-1, 4, 5)),
        (lambda: ops.expand(x, (4.0, 5)), TypeError, "size[0]", lambda: x.expand((4.0, 5))),
        (lambda: ops.repeat(x, (2,)), ValueError, "repeats has 1 numbers", lambda: x.repeat(2)),
        (lambda: ops.repeat(x, (2, -1)), ValueError, "repeats[1] is -1", lambda: x.repeat(2, -1)),
        (lambda: ops.repeat_interleave(x, -1), ValueError, "repeats is -1", lambda: x.repeat_interleave(-1)),
        (lambda: ops.repeat_interleave(x, n, 0), ValueError, "repeats.shape", lambda: x.repeat_interleave(n, 0)),
        (lambda: ops.repeat_interleave(x, n - 2, 0), ValueError, "repeats.shape", lambda: x.repeat_interleave(n, 0)),
        (lambda: ops.repeat_interleave(x.t()[:2], n - 2, 0), ValueError, "below 0", None),
        (lambda: ops.repeat_interleave(x, n.float(), 0), TypeError, "repeats.dtype", None),
        (lambda: ops.repeat_interleave(x, 2, 2), IndexError, "dim is 2", lambda: x.repeat_interleave(2, 2)),
        (lambda: ops.repeat_interleave(x[:2], n, 0, output_size=4), IndexError, "output_size is 4", None),
        (lambda: ops.index(x, (n + 3,)), IndexError, "indices[0][0] is 4", lambda: x[n + 3]),
        (lambda: ops.take(x, n + 18), IndexError, "index[1] is 20", lambda: x.take(n + 18)),
        (lambda: ops.take(x, n.int()), TypeError, "index.dtype", lambda: x.take(n.int())),
        (lambda: ops.repeat(x.to(torch.complex64), (1, 1)), TypeError, "input.dtype is complex64", None),
    ):
        assert_rejected(call, kind, words, by_torch=theirs)
