"""Pooling over windows that overlap, reach into padding, or have several sizes: orders of sums, torch's machinery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.ops.pooling.avg_pool import MANY
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected, gamma

CONTRACTS = pytest.mark.parametrize("contract", ["v1", "sequential"])
POOLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "avg, overlapping": lambda x: ops.avg_pool2d(x, 3, 1),
    "avg, padded": lambda x: ops.avg_pool2d(x, 3, 2, 1, True),
    "avg, padding not counted": lambda x: ops.avg_pool2d(x, (3, 2), (1, 2), 1, False, False),
    "adaptive avg": lambda x: ops.adaptive_avg_pool2d(x, (3, 4)),
    "adaptive max": lambda x: ops.adaptive_max_pool2d(x, (3, 4)),  # type: ignore[return-value]
    "lp": lambda x: ops.lp_pool2d(x, 2, 3, 2),
    "max 3d": lambda x: ops.max_pool3d(x[None], (2, 3, 3), 1, (1, 1, 0))[0],  # type: ignore[index]
    "unpool": lambda x: ops.max_unpool2d(ops.max_pool2d(x, 2), *F.max_pool2d(x, 2, return_indices=True)[1:], 2),
}
"""Of images (N, C, 7, 6)."""

every_pool = pytest.mark.parametrize("name", POOLS)


@every_pool
def test_pool__derivatives(name: str) -> None:
    x = uniform(1, 1, 2, 7, 6).double().requires_grad_()
    function = lambda t: POOLS[name](ops.mul(t, t))
    assert torch.autograd.gradcheck(function, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, x, fast_mode=True)


@pytest.mark.parametrize(
    ("name", "dynamic"), [*((name, False) for name in POOLS), ("avg, padded", True), ("adaptive avg", True)]
)
def test_pool__compiled(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(POOLS[name], backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for batch in (2, 3):
        x = uniform(1, batch, 3, 7, 6).requires_grad_()
        expected, actual = POOLS[name](x), compiled(x)
        assert_same_bits(actual.detach(), expected.detach())
        assert_same_bits(*(torch.autograd.grad(o, x, uniform(2, *o.shape))[0] for o in (actual, expected)))


@every_pool
def test_pool__batch_slice_vmap_and_layout(name: str) -> None:
    x = uniform(1, 3, 4, 7, 6)
    whole = POOLS[name](x)
    last = POOLS[name](x.to(memory_format=torch.channels_last))
    assert_same_bits(last, whole)
    if name not in ("max 3d", "unpool"):
        assert last.is_contiguous(memory_format=torch.channels_last) and whole.is_contiguous()
    if name != "max 3d":  # whose images are the depth here
        for i in range(3):
            assert_same_bits(POOLS[name](x[i : i + 1])[0], whole[i])
    xs = uniform(2, 2, 3, 4, 7, 6)
    loss = lambda t: ops.sum(ops.mul(POOLS[name](t), POOLS[name](t)))
    if name != "unpool":  # whose indices torch's own pooling makes
        rows = torch.func.vmap(torch.func.grad(loss))(xs)
        for i in range(2):
            leaf = xs[i].clone().requires_grad_()
            assert_same_bits(rows[i], torch.autograd.grad(loss(leaf), leaf)[0])


@CONTRACTS
def test_avg_pool__order_of_sums(contract: str) -> None:
    """The elements of a window in row-major order; the windows of an element in ascending order."""
    x = (uniform(1, 1, 2, 20, 19) * 2.0 ** (torch.arange(19) * 7 % 12)).requires_grad_()
    kernel, stride, padding = (9, 8), (2, 3), (4, 1)
    for counted in (True, False):
        result = ops.avg_pool2d(x, kernel, stride, padding, True, counted, contract=contract)
        g = uniform(2, *result.shape)
        terms: dict[tuple[int, int], list[torch.Tensor]] = {}
        for i in range(result.shape[2]):
            for j in range(result.shape[3]):
                starts = i * 2 - 4, j * 3 - 1
                rows, columns = (range(max(0, s), min(n, s + k)) for s, n, k in zip(starts, x.shape[2:], kernel))
                ends = [min(s + k, n + p) for s, n, k, p in zip(starts, x.shape[2:], kernel, padding)]
                count = (ends[0] - starts[0]) * (ends[1] - starts[1]) if counted else len(rows) * len(columns)
                window = x[:, :, rows.start : rows.stop, columns.start : columns.stop]
                expected = ops.div(ops.sum(window, (2, 3), contract=contract), float(count))
                assert_same_bits(result[:, :, i, j].detach(), expected.detach(), f"{i, j}")
                for a in rows:
                    for b in columns:
                        terms.setdefault((a, b), []).append(ops.div(g[:, :, i, j], float(count)))
        (grad,) = torch.autograd.grad(result, x, g)
        for (a, b), quotients in terms.items():
            total = ops.sum(torch.stack(quotients), 0, contract=contract)
            assert_same_bits(grad[:, :, a, b], total, f"gradient {a, b}")


@CONTRACTS
def test_adaptive_avg_pool__is_the_mean_of_each_window(contract: str) -> None:
    x = uniform(1, 2, 3, 40, 31) * 2.0 ** (torch.arange(31) * 7 % 12)
    result = ops.adaptive_avg_pool2d(x, (3, 7), contract=contract)
    for i in range(3):
        for j in range(7):
            window = x[:, :, i * 40 // 3 : -(-(i + 1) * 40 // 3), j * 31 // 7 : -(-(j + 1) * 31 // 7)]
            assert_same_bits(result[:, :, i, j], ops.mean(window, (2, 3), contract=contract), f"{i, j}")


def test_avg_pool__windows_side_by_side_have_the_bits_of_others() -> None:
    """A view and a table give the same bits: with padding that nobody reads, all windows are rows of a table."""
    x = uniform(1, 2, 3, 12, 8)
    padded = ops.avg_pool2d(ops.pad(x, (0, 3, 0, 3)), 4, 4)[:, :, :3, :2]
    assert_same_bits(ops.avg_pool2d(x, 4), padded)
    table = ops.avg_pool2d(x, 4, 4, 0, True, True, 16)
    assert_same_bits(ops.avg_pool2d(x, 4), table)
    assert_same_bits(ops.avg_pool2d(x, 4, (2, 4))[:, :, ::2], table)


def test_avg_pool__copied_windows_have_the_bits_of_a_view() -> None:
    x = (uniform(1, 40, 3, 12, 14) * 2.0 ** (torch.arange(14) * 7 % 12)).requires_grad_()
    assert x.numel() >= MANY
    for kernel in ((2, 2), (3, 2), (4, 4)):
        whole = ops.avg_pool2d(x, kernel)
        assert_same_bits(whole[3:5].detach(), ops.avg_pool2d(x[3:5].detach(), kernel))
        g = uniform(2, *whole.shape, special=True)
        (grad,) = torch.autograd.grad(whole, x, g)
        part = x[3:5].detach().requires_grad_()
        assert_same_bits(grad[3:5], torch.autograd.grad(ops.avg_pool2d(part, kernel), part, g[3:5])[0])


def test_avg_pool__halves_are_rounded_once() -> None:
    x = uniform(1, 2, 3, 7, 6)
    for dtype in (torch.bfloat16, torch.float16):
        for args in ((3, 1, 1), (2,), (2, 2, 0, False, True, 3), (3, 2, 1, True, False)):
            wide = ops.avg_pool2d(x.to(dtype).float(), *args)
            assert_same_bits(ops.avg_pool2d(x.to(dtype), *args), ops.cast(wide, dtype), str(args))
        for pool in (lambda t: ops.adaptive_avg_pool2d(t, 4), lambda t: ops.lp_pool2d(t, 2, 2)):
            assert_same_bits(pool(x.to(dtype)), ops.cast(pool(x.to(dtype).float()), dtype))


def test_lp_pool__as_torch() -> None:
    """Powers of 9 positive elements have one sign: each rounding is a relative error, which the root divides by p."""
    for p in (1, 2, 3, 1.5, 2.0, 0.5):
        for options in ((3, 2), (3, 2, True), (2,)):
            x = uniform(1, 2, 3, 7, 6).abs()
            leaf, exact = x.clone().requires_grad_(), x.double().requires_grad_()
            result, expected = ops.lp_pool2d(leaf, p, *options), F.lp_pool2d(exact, p, *options)
            bound = gamma(20) * (1 + 1 / p)
            torch.testing.assert_close(result.double(), expected, rtol=bound, atol=0)
            g = uniform(2, *result.shape)
            grads = torch.autograd.grad(result, leaf, g)[0], torch.autograd.grad(expected, exact, g.double())[0]
            sizes = torch.autograd.grad(F.lp_pool2d(exact, p, *options), exact, g.double().abs())[0]
            assert ((grads[0].double() - grads[1]).abs() <= 4 * bound * sizes.abs() * (1 + p)).all(), (p, options)
    for dims, pool in ((1, ops.lp_pool1d), (3, ops.lp_pool3d)):
        x = uniform(3, 2, *(5, 6, 7)[: dims + 1])
        torch.testing.assert_close(pool(x, 2, 2), getattr(F, f"lp_pool{dims}d")(x, 2, 2))
    assert ops.lp_pool1d(torch.full((1, 4), -1.0), 3, 2).isnan().all()
    x = uniform(4, 1, 6).abs().double()
    torch.testing.assert_close(ops.lp_pool1d(x, 3, 2), F.lp_pool1d(x, 3, 2), rtol=2.0**-48, atol=0)


def test_max_pool__nan_and_ties_as_torch() -> None:
    x = uniform(1, 2, 2, 6, 7, 5).mul(4).round()
    x[0, 0, 2, 3, 1], x[1, 1, 1, 1, 1], x[1, 1, 1, 1, 2] = float("nan"), float("nan"), float("nan")
    x[0, 1], x[1, 0] = float("-inf"), 0.0
    for options in ((3, 1, 1), (2,), ((2, 3, 2), (1, 2, 1), (1, 1, 0))):
        expected = F.max_pool3d(x, *options, return_indices=True)
        actual = ops.max_pool3d(x, *options, return_indices=True)
        assert_same_bits(list(actual), list(expected))
    for size in (3, (4, 3, 2), (6, 7, 5)):
        expected = F.adaptive_max_pool3d(x, size, return_indices=True)
        assert_same_bits(list(ops.adaptive_max_pool3d(x, size, return_indices=True)), list(expected))


def test_max_unpool__the_last_of_several_is_there() -> None:
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    assert ops.max_unpool1d(x, torch.tensor([[[1, 1, 5, 1]]]), 2).flatten().tolist() == [0, 4, 0, 0, 0, 3, 0, 0]


def test_pool__empty_batch() -> None:
    for name, pool in POOLS.items():
        x = torch.zeros(0, 3, 7, 6, requires_grad=True)
        if name != "max 3d":
            output = pool(x)
            assert output.shape[:2] == (0, 3) and output.requires_grad
            output.sum().backward()


def test_pool__rejects() -> None:
    x, y = uniform(1, 2, 3, 7, 6), uniform(2, 2, 3, 4, 7, 6)
    at = torch.zeros(2, 3, 7, 6, dtype=torch.int64)
    cases: list[tuple[str, torch.Tensor, tuple[Any, ...], str]] = [
        ("avg_pool2d", x, (3, 1, 2), "padding is (2, 2)"),
        ("avg_pool2d", x, (8,), "kernel_size is (8, 8)"),
        ("avg_pool2d", x[:, :0], (2,), "expected 0 for the batch only"),
        ("avg_pool3d", x[0], (2,), "input.dim() is 3"),
        ("avg_pool3d", y, (2, 1, 0, False, True, 0), "divisor_override is 0"),
        ("adaptive_avg_pool3d", y, ((1, 2),), "output_size is (1, 2)"),
        ("adaptive_avg_pool3d", y, (-1,), "output_size is (-1, -1, -1)"),
        ("adaptive_max_pool2d", x[:, :0], (2,), "expected 0 for the batch only"),
        ("adaptive_max_pool2d", x[0, 0], (2,), "input.dim() is 2"),
        ("lp_pool2d", x, (0, 2), "norm_type is 0"),
        ("lp_pool2d", x, (2, 8), "kernel_size is (8, 8)"),
        ("max_pool3d", y, (8,), "kernel"),
        ("max_pool3d", y, (2, 1, 2), "padding is 2"),
        ("max_unpool2d", x, (at[:1], 2), "indices.shape"),
        ("max_unpool2d", x, (at, 2, 2, 0, (7, 6)), "output_size is (7, 6)"),
        ("max_unpool2d", x[0, 0], (at[0, 0], 2), "input.dim() is 2"),
    ]  # fmt: skip
    for name, input, args, words in cases:
        theirs = None if words == "norm_type is 0" else lambda: getattr(F, name)(input, *args)
        assert_rejected(lambda: getattr(ops, name)(input, *args), ValueError, words, by_torch=theirs)
    for bad in (-1, 14 * 12):
        wrong = at.clone()
        wrong[1, 2, 3, 4] = bad
        assert_rejected(lambda: ops.max_unpool2d(x, wrong, 2), IndexError, f"indices[1, 2, 3, 4] is {bad}", "0 to 167")
    for name in ("avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d"):
        assert_rejected(lambda: getattr(ops, name)(x.long(), 2), TypeError, "input.dtype is int64")
    assert_rejected(lambda: ops.max_unpool2d(x, at.int(), 2), TypeError, "indices.dtype is int32")
    with pytest.raises(UnsupportedError, match="no element of the input"):
        ops.max_pool3d(uniform(1, 1, 1, 2, 4, 4), (2, 1, 1), 1, (1, 0, 0), (3, 1, 1))
