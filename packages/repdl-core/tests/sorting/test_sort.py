"""The order of elements: sorting, the largest k, medians, and the least and largest over dimensions."""

from __future__ import annotations

import sys

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import repdl
from repdl import ops
from repdl.ops.common.sort_key import sort_key
from repdl.testing import assert_same_bits, uniform
from repdl.testing.environment import can_flush, flush_denormal
from repdl.testing.inputs import integers
from repdl.testing.oracle import assert_rejected

NAN, INF = float("nan"), float("inf")
ROW = [1.0, -0.0, NAN, 0.0, -INF, 1e-45, -1e-45, 2.0, INF, 1.0, -1.0, 0.0]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def coarse(*shape: int) -> torch.Tensor:
    """Few different numbers, so that there are ties; NaN and both zeros among them."""
    pool = torch.tensor([-1.0, -0.0, 0.0, 2.0, NAN, INF, -INF])
    n = torch.Size(shape).numel()
    return pool[torch.from_numpy((integers(3, n) % 7).astype("int64"))].reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_order__is_that_of_the_numbers(dtype: torch.dtype) -> None:
    x = torch.tensor([-INF, -1.0, -(2.0**-24), -0.0, 0.0, 2.0**-24, 1.0, INF, NAN]).to(dtype)
    keys = sort_key(x)
    assert (keys[1:] >= keys[:-1]).all() and (keys[3] == keys[4]) and (keys.diff() != 0).sum() == 7
    assert sort_key(-x[-1:]) == keys[-1]  # a NaN with a sign
    assert torch.equal(sort_key(torch._neg_view(x)), sort_key(-x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort__is_torchs_stable_one(dtype: torch.dtype) -> None:
    for x in (torch.tensor(ROW), coarse(4, 30), coarse(5, 6, 7).permute(2, 0, 1), torch.tensor(3.0), torch.ones(2, 0)):
        x = x.to(dtype)
        for dim in range(max(x.dim(), 1)):
            for descending in (False, True):
                ours = ops.sort(x, dim, descending)
                theirs = torch.sort(x, dim=dim, descending=descending, stable=True)
                assert torch.equal(ours.indices, theirs.indices)
                assert_same_bits(ours.values, theirs.values)
                assert torch.equal(ops.argsort(x, dim, descending), theirs.indices)
                if x.dim() and x.shape[dim] > 2:
                    top = ops.topk(x, 3, dim, largest=descending)
                    assert torch.equal(top.indices, theirs.indices.narrow(dim, 0, 3))
    assert ops.sort(torch.tensor([3, 1, 2], dtype=torch.uint8)).indices.tolist() == [1, 2, 0]


@pytest.mark.skipif(not can_flush(), reason="this processor cannot flush subnormals")
def test_sort__whatever_the_thread_makes_of_subnormals() -> None:
    x = torch.tensor([[3e-45, 0.0, 1e-45, -1e-45], [0.0, 1e-45, 1e-45, 1e-45]])
    functions = (
        ops.argsort,
        lambda t: ops.argmax(t, 1),
        lambda t: ops.argmin(t, 1),
        lambda t: ops.topk(t, 2).indices,
        lambda t: ops.median(t, 1).indices,
        lambda t: ops.cummax(t, 1).indices,
        lambda t: ops.amax(t, 1),
        lambda t: ops.fmin(t, t.flip(1)),
        lambda t: torch.autograd.grad(ops.amax(t, 1), t, torch.ones(2)),
        lambda t: torch.autograd.grad(ops.max(t), t),
    )
    for number, function in enumerate(functions):
        leaf = x.clone().requires_grad_()
        expected = function(leaf)
        with flush_denormal():
            actual = function(leaf)
        assert_same_bits(actual, expected, f"function {number}")


def test_median__is_torchs() -> None:
    for x in (coarse(4, 9), coarse(4, 8), uniform(1, 3, 5), torch.tensor(2.0), torch.tensor([[NAN, NAN], [1.0, NAN]])):
        for ours, theirs in ((ops.median, torch.median), (ops.nanmedian, torch.nanmedian)):
            found, exact = ours(x, -1, True), theirs(x, -1, True)
            assert torch.equal(found.values.nan_to_num(5.0), exact.values.nan_to_num(5.0)), x
            taken = x.gather(-1, found.indices) if x.dim() else x
            assert torch.equal(taken.nan_to_num(5.0), found.values.nan_to_num(5.0)), x
            assert torch.equal(ours(x).nan_to_num(5.0), theirs(x).nan_to_num(5.0))
    assert ops.median(torch.tensor([2.0, 1.0, 1.0, 3.0]), 0).indices.item() == 2  # sorted: index 1, 2, 0, 3
    assert ops.median(torch.tensor([NAN, 1.0, NAN]), 0).indices.item() == 0
    assert ops.median(torch.ones(0)).isnan()
    assert ops.kthvalue(torch.tensor([2.0, 1.0, 1.0, 3.0]), 2).indices.item() == 2


def test_sort__gradients_are_moved() -> None:
    x, grad = coarse(4, 9).nan_to_num(9.0), uniform(1, 4, 9)
    leaf = x.requires_grad_()
    for ours, theirs in (
        (lambda t: ops.sort(t, 1).values, lambda t: torch.sort(t, dim=1, stable=True).values),
        (lambda t: ops.sort(t, 0, True).values, lambda t: torch.sort(t, dim=0, descending=True, stable=True).values),
    ):
        (a,), (b,) = (torch.autograd.grad(f(leaf), leaf, grad) for f in (ours, theirs))
        assert_same_bits(a, b)
    y = uniform(2, 4, 9).double().requires_grad_()
    for function in (lambda t: ops.topk(t, 3).values, lambda t: ops.median(t, 0).values, ops.nanmedian, ops.msort):
        assert torch.autograd.gradcheck(function, y)


def test_amax__shares_the_gradient_equally() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0, 3.0], [-0.0, 0.0, -1.0, -2.0], [NAN, 1.0, NAN, INF]], requires_grad=True)
    weight = torch.tensor([1.0, 1.0, 8.0])
    (grad,) = torch.autograd.grad(ops.amax(x, 1), x, weight)
    third = torch.tensor(1.0) / 3
    assert_same_bits(grad, torch.tensor([[0, third, third, third], [0.5, 0.5, 0, 0], [4.0, 0, 4.0, 0]]))
    y = uniform(1, 3, 4, 5).double().requires_grad_()
    for function in (lambda t: ops.amax(t, (0, 2)), lambda t: ops.amin(t, 1, True), lambda t: ops.aminmax(t, dim=0)):
        assert torch.autograd.gradcheck(function, y)
        assert torch.autograd.gradgradcheck(function, y)


def test_amin__is_torchs_but_for_nan_and_zeros() -> None:
    x = coarse(5, 6, 7)
    for name in ("min", "max"):
        of_all, over = getattr(ops, name), getattr(ops, f"a{name}")
        for dim in range(3):
            ours, theirs = of_all(x, dim), getattr(torch, name)(x, dim)
            assert torch.equal(ours.indices, theirs.indices)
            assert torch.equal(getattr(ops, f"arg{name}")(x, dim), theirs.indices)
            assert torch.equal(ours.values.nan_to_num(5.0), theirs.values.nan_to_num(5.0))
            assert_same_bits(over(x, dim), ours.values)  # of equal zeros the first one, NaN the canonical one
        assert_same_bits(over(x), of_all(x))
        assert getattr(ops, f"arg{name}")(x, keepdim=True).shape == (1, 1, 1)
    assert isinstance(ops.min(x, 1), torch.return_types.min)
    assert_same_bits(ops.min(x, x.flip(0)), ops.minimum(x, x.flip(0)))
    assert ops.min(torch.tensor([3, 1, 1]), 0).indices.item() == 1
    assert ops.aminmax(torch.tensor([3, 1, 2])) == (torch.tensor(1), torch.tensor(3))


def test_fmax__takes_the_number_and_gives_it_the_gradient() -> None:
    a = torch.tensor([1.0, NAN, 2.0, NAN, -0.0, INF], requires_grad=True)
    b = torch.tensor([2.0, 1.0, NAN, NAN, 0.0, INF], requires_grad=True)
    # As of torch 2.13; 2.14 gives one half to each of two equal numbers, and a NaN has the gradient too.
    for ours, theirs, of_a in ((ops.fmax, torch.fmax, [0, 0, 1, 1, 1, 1]), (ops.fmin, torch.fmin, [1, 0, 1, 1, 1, 1])):
        assert torch.equal(ours(a, b).nan_to_num(7.0), theirs(a, b).nan_to_num(7.0))
        to_a, to_b = torch.autograd.grad(ours(a, b).sum(), (a, b))
        assert to_a.tolist() == of_a and torch.equal(to_b, 1 - to_a)
    assert ops.fmax(torch.tensor([1, 3]), torch.tensor([2, 2])).tolist() == [2, 3]


def test_sort__rejects() -> None:
    x = uniform(1, 2, 3)
    for name in ("sort", "argsort"):
        ours, theirs = getattr(ops, name), getattr(torch, name)
        assert_rejected(lambda: ours(x, 2), IndexError, f"{name}: dim is 2", by_torch=lambda: theirs(x, 2))
        assert_rejected(lambda: ours(x, 0, 1), TypeError, f"{name}: descending")
    for k in (-1, 4):
        assert_rejected(lambda: ops.topk(x, k), ValueError, f"topk: k is {k}", by_torch=lambda: torch.topk(x, k))
    assert_rejected(lambda: ops.kthvalue(x, 0), ValueError, "kthvalue: k", by_torch=lambda: torch.kthvalue(x, 0))
    empty = x[:, :0]
    for name in ("amax", "amin", "argmax", "argmin", "median", "min"):
        ours, theirs = getattr(ops, name), getattr(torch, name)
        assert_rejected(
            lambda: ours(empty, 1), IndexError, f"{name}: input.shape[1] is 0", by_torch=lambda: theirs(empty, 1)
        )
    for name in ("amax", "amin", "argmax", "argmin", "min", "aminmax"):
        assert_rejected(
            lambda: getattr(ops, name)(empty), ValueError, name, by_torch=lambda: getattr(torch, name)(empty)
        )


def test_sort__compiled() -> None:
    """Of those that are more than registered ops: the same bits in one graph, and the same gradients."""
    functions = {
        "sort": lambda t: ops.sort(t, 1).values,
        "median": ops.nanmedian,
        "std": lambda t: ops.std(t, 1),
        "einsum": lambda t: ops.einsum("ij,kj->ik", t, t),
    }
    for name, function in functions.items():
        x, other = uniform(1, 4, 7).requires_grad_(), uniform(1, 4, 7).requires_grad_()
        expected = function(x)
        actual = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=True)(other)
        assert_same_bits(actual, expected, name)
        cotangent = uniform(2, *expected.shape)
        (a,), (e,) = torch.autograd.grad(actual, other, cotangent), torch.autograd.grad(expected, x, cotangent)
        assert_same_bits(a, e, name)


def test_sort__reaches_no_op_of_torch_that_rounds() -> None:
    functions = {
        "sort": lambda t: ops.sort(t, 1).values,
        "topk": lambda t: ops.topk(t, 2).values,
        "median": lambda t: ops.median(t, 1).values,
        "nanmedian": ops.nanmedian,
        "cummin": lambda t: ops.cummin(t, 1).values,
        "amin": lambda t: ops.amin(t, 0),
        "var": lambda t: ops.var(t, 1),
        "std": ops.std,
        "norm": lambda t: ops.vector_norm(t, 3),
        "logsumexp": lambda t: ops.logsumexp(t, (0, 1)),
        "prod": lambda t: ops.prod(t, 1),
        "cumprod": lambda t: ops.cumprod(t, 1),
        "nanmean": ops.nanmean,
        "einsum": lambda t: ops.einsum("ij,kj,ii->ik", t, t, t[:, :4]),
        "cdist": lambda t: ops.cdist(t, t.flip(0)),
        "cross": lambda t: ops.cross(t[:, :3], t[:, 3:6], 1),
    }
    for name, function in functions.items():
        report = repdl.audit(function, uniform(1, 4, 7).requires_grad_())
        assert report.ok, f"{name}: {report}"


PACKED = (torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


@pytest.mark.parametrize("dtype", PACKED)
def test_sort__by_numpy_and_by_torch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the host sorts by NumPy, other devices and transforms sort by torch: every index is the same."""
    x = coarse(6, 5, 40)
    if not dtype.is_floating_point:
        x = x.nan_to_num(3, 2**30, -(2**30)).long() % 256 - (0 if dtype is torch.uint8 else 128)
    x = x.to(dtype)
    x[0] = x[0, 0, 0]
    views = x, x.permute(2, 0, 1), x[:, ::2, 3::5], x[..., :1], x[:, :0], x[2, 3]
    calls = [(y, d) for y in views for d in range(y.dim())]

    def found() -> list[torch.Tensor]:
        indices = []
        for y, d in calls:
            n = y.shape[d]
            indices += [ops.argsort(y, d, descending) for descending in (False, True)]
            indices += [
                ops.topk(y, k, d, largest).indices for k in {0, min(1, n), n // 2, n} for largest in (False, True)
            ]
            indices += [ops.kthvalue(y, k, d).indices for k in {1, (n + 1) // 2, n} if n]
            indices += [f(y, d).indices for f in (ops.median, ops.nanmedian) if n]
            indices += [f(y, d).indices for f in (ops.cummax, ops.cummin) if n]
        return indices

    by_numpy = found()
    for name in ("repdl.ops.sorting.sort", "repdl.ops.reduction.scan"):
        monkeypatch.setattr(sys.modules[name], "can_pack", lambda tensor, dim: False)
    by_torch = found()
    assert len(by_torch) > 200
    for ours, theirs in zip(by_numpy, by_torch, strict=True):
        assert ours.dtype is theirs.dtype is torch.int64 and torch.equal(ours, theirs)


def test_sort__under_transforms() -> None:
    """Their tensors have no memory that NumPy can read."""
    x = coarse(3, 9).nan_to_num()
    grad = torch.func.grad(lambda t: ops.topk(t, 2).values.sum())(x[0])
    assert grad.sum() == 2 and torch.equal(grad.nonzero().flatten(), ops.topk(x[0], 2).indices.sort().values)
    assert_same_bits(torch.vmap(lambda t: ops.sort(t).values)(x), ops.sort(x).values)


@pytest.mark.parametrize("name", ["sort", "argsort", "topk", "kthvalue", "median", "cummax"])
def test_sort__while_traced(name: str) -> None:
    """A graph has the ops that find the order, not the order of the example."""
    x, y = coarse(3, 9), coarse(3, 9).flip(1)

    def call(t: torch.Tensor) -> torch.Tensor:
        found = getattr(ops, name)(t, *{"topk": (2,), "kthvalue": (2,), "median": (1,), "cummax": (1,)}.get(name, ()))
        return found if name == "argsort" else found.indices

    assert not torch.equal(call(x), call(y))
    assert torch.equal(make_fx(call)(x)(y), call(y))
    whole = [t.nan_to_num(3, 9, -9).int() for t in (x, y)]
    traced = torch.jit.trace(call, (whole[0],), check_trace=False)
    assert torch.equal(traced(whole[1]), call(whole[1]))


def test_sort__of_tensors_that_numpy_refuses() -> None:
    assert ops.argsort(torch._efficientzerotensor(2, 3)).tolist() == [[0, 1, 2]] * 2
    x = coarse(3, 9).nan_to_num(3, 9, -9)
    for t in (x, x.int()):
        assert torch.equal(ops.argsort(torch._neg_view(t)), ops.argsort(-t))


def test_sort__results_are_row_major() -> None:
    for x in (uniform(1, 4, 6), uniform(1, 90, 60), torch.arange(24).view(4, 6)):
        for found in (*ops.sort(x, 0), ops.argsort(x, 0), ops.msort(x), *ops.topk(x, 2, 0)):
            assert found.is_contiguous()
