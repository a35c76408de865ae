"""What is particular to functions of indices: the order of sums, bits that stay, errors, torch's machinery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.ops.common.index import FEW
from repdl.ops.indexing._index_reduce import MODES
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import floats, index
from repdl.testing.oracle import assert_rejected

AT = index(2, 4, 3, 6, 5)
"""Of a tensor (3, 4, 5), in dimension 1."""
ROWS = index(3, 4, 7)

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "gather": lambda x, y, m: m.gather(x, 1, AT),
    "take_along_dim": lambda x, y, m: m.take_along_dim(x, AT[:1, :, :1], 1),
    "index_select": lambda x, y, m: m.index_select(x, 1, ROWS),
    "index_add": lambda x, y, m: m.index_add(x, 1, ROWS, m.gather(y, 1, ROWS[:, None].expand(3, 7, 5)), alpha=0.3),
    "scatter_add": lambda x, y, m: m.scatter_add(x, 1, AT[:, :5], y),
    "scatter_reduce sum": lambda x, y, m: m.scatter_reduce(x, 1, AT[:, :5], y, "sum", include_self=False),
    "scatter_reduce mean": lambda x, y, m: m.scatter_reduce(x, 1, AT[:, :5], y, "mean"),
    **{
        f"scatter_reduce {mode}{'' if own else ', alone'}": lambda x, y, m, mode=mode, own=own: m.scatter_reduce(
            x, 1, AT[:, :5], y, mode, include_self=own
        )
        for mode in ("amax", "amin", "prod")
        for own in (True, False)
    },
    "index_reduce": lambda x, y, m: m.index_reduce(x, 1, ROWS[:5], y, "prod"),
    "index_put": lambda x, y, m: m.index_put(x, (None, ROWS[:2]), y[:, :2]),
    "index_put accumulate": lambda x, y, m: m.index_put(x, (torch.tensor(1), ROWS[:5]), y[0], accumulate=True),
}
"""Of x (3, 4, 5) and y (3, 5, 5)."""

every_function = pytest.mark.parametrize("name", FUNCTIONS)


def xy(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [t.to(dtype).requires_grad_() for t in (uniform(4, 3, 4, 5), uniform(5, 3, 5, 5))]


theirs = torch.ops.aten.index_put  # which takes None


def of(name: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda x, y: FUNCTIONS[name](x, y, ops)


@every_function
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_index_ops__derivatives(name: str, whole: bool) -> None:
    """The second ones element by element in the night, else along a random direction."""
    squares = lambda x, y: ops.mul(of(name)(x, y), of(name)(x, y))
    assert torch.autograd.gradcheck(squares, xy(torch.float64))
    assert torch.autograd.gradgradcheck(squares, xy(torch.float64), fast_mode=not whole)


@every_function
def test_index_ops__audit(name: str) -> None:
    report = repdl.audit(of(name), *xy())
    assert report.ok, report


@every_function
@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_index_ops__compiled(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(of(name), backend="aot_eager", fullgraph=True, dynamic=dynamic)
    expected, actual = of(name)(*xy()), compiled(*xy())
    assert_same_bits(actual.detach(), expected.detach())
    grads = []
    for run in (of(name), compiled):
        x, y = xy()
        output = run(x, y)
        grads.append(
            [g for g in torch.autograd.grad(output, (x, y), output.detach(), allow_unused=True) if g is not None]
        )
    assert_same_bits(*grads)


@every_function
def test_index_ops__vmap_and_func(name: str) -> None:
    loss = lambda x, y: ops.sum(ops.mul(of(name)(x, y), of(name)(x, y)))
    xs, ys = uniform(4, 2, 3, 4, 5), uniform(5, 2, 3, 5, 5)
    rows = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))(xs, ys)
    for i in range(2):
        x, y = xs[i].clone().requires_grad_(), ys[i].clone().requires_grad_()
        found = torch.autograd.grad(loss(x, y), (x, y), allow_unused=True)
        for row, grad in zip(rows, found):
            assert_same_bits(row[i], torch.zeros_like(row[i]) if grad is None else grad)


@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_index_ops__order_of_sums(contract: str) -> None:
    x, y, at = uniform(1, 4, 3), uniform(2, 900, 3), index(2, 3, 900)
    place = at[:, None].expand(900, 3)
    added = ops.index_add(x, 0, at, y, contract=contract)
    scattered = ops.scatter_add(x, 0, place, y, contract=contract)
    put = ops.index_put(x, (at,), y, accumulate=True, contract=contract)
    mean = ops.scatter_reduce(x, 0, place, y, "mean", include_self=False, contract=contract)
    leaf = x.clone().requires_grad_()
    ops.index_select(leaf, 0, at, contract=contract).backward(y)
    counted = ops.bincount(at, y[:, 0], 4, contract=contract)
    for k in range(3):
        total = ops.sum(y[at == k], 0, contract=contract)
        for result in (added, scattered, put):
            assert_same_bits(result[k], ops.add(x[k], total))
        assert_same_bits(mean[k], ops.div(total, float((at == k).sum())))
        assert_same_bits(leaf.grad[k], total)  # type: ignore[index]
        assert_same_bits(counted[k], total[0])
    scaled = ops.index_add(x, 0, at, y, alpha=-0.3, contract=contract)
    assert_same_bits(scaled[0], ops.add(x[0], ops.sum(y[at == 0], 0, contract=contract), alpha=-0.3))


def test_index_ops__products_and_extremes_are_those_of_the_elements() -> None:
    """Groups of every size up to 40, one element after the other by the functions of one row."""
    at = torch.cat([torch.full((n,), n) for n in range(41)])
    at = at[torch.argsort(uniform(1, len(at)), stable=True)]
    x, y = uniform(2, 41, 2), uniform(3, len(at), 2)
    y[::7], y[3::11] = 0.0, float("nan")
    for own in (True, False):
        for mode in ("prod", "amax", "amin"):
            result = ops.index_reduce(x, 0, at, y, mode, include_self=own)
            for n in range(41):
                mine = y[at == n]
                if mode == "prod":
                    expected = ops.prod(mine, 0)
                    expected = ops.mul(x[n], expected) if own else expected
                else:
                    expected = getattr(ops, mode)(torch.cat([x[n : n + 1], mine]) if own else mine, 0) if n else x[n]
                assert_same_bits(result[n], expected if n else x[n], f"{mode} {own} {n}")


def test_index_ops__extremes_share_their_gradient() -> None:
    x = torch.tensor([2.0, 5.0, 1.0, 0.0]).requires_grad_()
    y = torch.tensor([2.0, 2.0, 4.0, float("nan"), float("nan"), 1.0]).requires_grad_()
    at, g = torch.tensor([0, 0, 1, 2, 2, 0]), torch.tensor([3.0, 5.0, 7.0, 11.0])
    for own, to_x, to_y in (
        (True, [1.0, 5.0, 0.0, 11.0], [1.0, 1.0, 0.0, 3.5, 3.5, 0.0]),
        (False, [0.0, 0.0, 0.0, 11.0], [1.5, 1.5, 5.0, 3.5, 3.5, 0.0]),
    ):
        grads = torch.autograd.grad(ops.scatter_reduce(x, 0, at, y, "amax", include_self=own), (x, y), g)
        assert [t.tolist() for t in grads] == [to_x, to_y]
    zeros = torch.tensor([0.0, -0.0])
    for mode in ("amax", "amin"):
        found = ops.scatter_reduce(zeros, 0, torch.tensor([0, 1]), -zeros, mode)
        assert_same_bits(found, zeros, "of equal zeros the first")


def test_index_ops__elements_without_terms_keep_their_bits() -> None:
    x, at = floats(0x80000000, 0x00000000, 0x00000001, 0x80000001, 0xFF800000, 0x3F800000), torch.tensor([5])
    one = torch.ones(1)
    for alpha in (1, -1, 0.5, -0.5, 0.0, -0.0):
        assert_same_bits(ops.index_add(x, 0, at, one, alpha=alpha)[:5], x[:5])
    for result in (
        ops.scatter_add(x, 0, at, one),
        ops.index_put(x, (at,), one, accumulate=True),
        ops.index_put(x, (at,), one),
        *(ops.scatter_reduce(x, 0, at, one, mode, include_self=s) for mode in MODES for s in (True, False)),
    ):
        assert_same_bits(result[:5], x[:5])


def test_index_ops__the_last_of_several_values_is_put() -> None:
    at, values = index(1, 5, 400), uniform(1, 400, 2)
    for kind in (lambda t: t, lambda t: (t * 100).long(), lambda t: t.bfloat16()):
        result = ops.index_put(kind(uniform(2, 6, 2)), (at,), kind(values))
        for k in range(5):
            assert torch.equal(result[k], kind(values)[at == k][-1])
        assert torch.equal(result[5], kind(uniform(2, 6, 2))[5])
    leaf, source = uniform(2, 6, 2).requires_grad_(), values.clone().requires_grad_()
    ops.index_put(leaf, (at,), source).backward(torch.ones(6, 2))
    last = torch.tensor([max((at == k).nonzero().flatten().tolist()) for k in range(5)])
    expected = torch.zeros(400, 2).index_fill(0, last, 1.0)
    assert_same_bits(source.grad, expected)
    assert leaf.grad is not None and leaf.grad[:, 0].tolist() == [0, 0, 0, 0, 0, 1]


def test_index_ops__index_put_takes_torchs_indices() -> None:
    x = uniform(1, 4, 5, 6)
    mask, rows = uniform(2, 4, 5) > 0, torch.tensor([3, -1, 0])
    forms = [(mask,), (mask[:, 0],), (rows,), (None, rows), (rows, None, rows), (None, None, rows), (rows, rows)]
    forms += [(rows[:, None], rows.int()), (x > 0,), (None, mask[0]), (torch.tensor(2),)]
    for form in forms:
        shape = x[tuple(slice(None) if i is None else i for i in form)].shape
        for values in (uniform(3, *shape), uniform(3, 1), uniform(4)):
            expected = theirs(x.double(), form, values.double(), True)
            torch.testing.assert_close(ops.index_put(x, form, values, True), expected.float())
        if form[0] is not rows:  # rows are put twice
            assert_same_bits(ops.index_put(x, form, uniform(4)), theirs(x, form, uniform(4)))


def test_index_ops__index_put_takes_bytes_as_mask() -> None:
    x, mask = uniform(1, 4, 5, 6), uniform(2, 4, 5) > 0
    assert_same_bits(ops.index_put(x, (mask.byte(),), uniform(4)), ops.index_put(x, (mask,), uniform(4)))


def test_index_ops__integers_are_torchs() -> None:
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
        x, y = (uniform(4, 3, 4, 5) * 99).to(dtype), (uniform(5, 3, 5, 5) * 99).to(dtype)
        for name, function in FUNCTIONS.items():
            if name not in ("index_add", "index_put") and not (dtype is torch.bool and "mean" in name):
                assert torch.equal(function(x, y, ops), function(x, y, torch)), (name, dtype)
    x, y = torch.arange(6), torch.arange(4)
    assert torch.equal(ops.index_add(x, 0, y, y, alpha=3), x.index_add(0, y, y, alpha=3))
    for mode in ("prod", "amax", "amin", "mean"):
        assert torch.equal(ops.scatter_reduce(x, 0, y, y, mode), x.scatter_reduce(0, y, y, mode))


def test_index_ops__bincount() -> None:
    at = index(1, 9, 500)
    assert torch.equal(ops.bincount(at), at.bincount()) and torch.equal(ops.bincount(at[:0]), at[:0].bincount())
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool):
        for kind in (torch.int64, torch.uint8):
            weights = (uniform(2, 500) * 8).to(dtype)
            expected = torch.bincount(at, weights.double(), 12)
            result = ops.bincount(at.to(kind), weights, 12)
            assert result.dtype is torch.bincount(at, weights, 12).dtype
            torch.testing.assert_close(result.double(), expected, rtol=0, atol=500 * 8 * 2.0**-24 * 500)
    assert torch.equal(ops.bincount(at[:0], torch.ones(0), 3), torch.zeros(3))


def test_index_ops__repeated_calls_look_at_the_values() -> None:
    x, y = uniform(1, 9, 3), uniform(2, 20, 3)
    for n in range(5):
        at = index(n, 9, 20)
        assert_same_bits(ops.index_select(x, 0, at), x[at])
        assert_same_bits(ops.index_add(x, 0, at, y)[at[3]], ops.add(x[at[3]], ops.sum(y[at == at[3]], 0)))
    at[7] = 9
    assert_rejected(lambda: ops.index_select(x, 0, at), IndexError, "index[7] is 9")


def test_index_ops__subnormals_whatever_the_environment() -> None:
    x, at = torch.full((4,), 2.0**-140), torch.tensor([0, 0, 2])
    expected = ops.index_add(x, 0, at, x[:3])
    try:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor can't flush")
        results = [
            ops.index_add(x, 0, at, x[:3]),
            ops.scatter_add(x, 0, at, x[:3]),
            ops.index_put(x, (at,), x[:3], True),
            ops.scatter_reduce(x, 0, at, x[:3], "sum"),
        ]
    finally:
        torch.set_flush_denormal(False)
    for result in results:
        assert_same_bits(result, expected)
    assert expected.tolist() == [3 * 2.0**-140, 2.0**-140, 2.0**-139, 2.0**-140]


@pytest.mark.parametrize("count", [3, FEW + 3])
def test_index_ops__rejects_indices_out_of_range(count: int) -> None:
    x, y = uniform(1, 4), uniform(2, count)
    calls: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
        "gather": lambda i, m: m.gather(x, 0, i),
        "index_select": lambda i, m: m.index_select(x, 0, i),
        "index_add": lambda i, m: m.index_add(x, 0, i, y),
        "scatter_add": lambda i, m: m.scatter_add(x, 0, i, y),
        "scatter_reduce": lambda i, m: m.scatter_reduce(x, 0, i, y, "mean"),
    }
    for name, call in calls.items():
        for bad in (-1, 4):
            at = torch.zeros(count, dtype=torch.int64)
            at[count - 2] = bad
            words = f"{name}: index[{count - 2}] is {bad}", "0 to 3"
            assert_rejected(lambda: call(at, ops), IndexError, *words, by_torch=lambda: call(at, torch))
            torch._dynamo.reset()
            with pytest.raises(IndexError, match="is -1, expected"):
                torch.compile(lambda i: call(i, ops), backend="aot_eager", fullgraph=True)(at)
        for dtype in (torch.float32, torch.int16, torch.bool):
            at = torch.zeros(count, dtype=dtype)
            assert_rejected(lambda: call(at, ops), TypeError, "index.dtype", by_torch=lambda: call(at, torch))
    for bad in (-5, 4):
        at = torch.tensor([0, bad])
        torch._dynamo.reset()
        with pytest.raises(IndexError, match="4 is out of bounds"):
            torch.compile(lambda i: ops.index_put(x, (i,), y[:2]), backend="aot_eager", fullgraph=True)(at)
        assert_rejected(lambda: ops.index_put(x, (at,), y[:2]), IndexError, f"indices[0][1] is {bad}", "-4 to 3")
        assert_rejected(lambda: ops.take_along_dim(x, at, 0), IndexError, f"indices[1] is {bad}", "-4 to 3")
    assert_rejected(lambda: ops.take_along_dim(x, torch.tensor([-1])), IndexError, "indices[0] is -1", "0 to 3")
    assert_rejected(lambda: ops.bincount(torch.tensor([0, -1])), IndexError, "input[1] is -1")


def test_index_ops__rejects() -> None:
    x, y, at = uniform(1, 4, 3), uniform(2, 2, 3), torch.tensor([0, 1])
    place = at[:, None].expand(2, 3)
    for call, kind, words in (
        (lambda: ops.gather(x, 2, place), IndexError, "dim is 2"),
        (lambda: ops.gather(x, 0, at), ValueError, "input.dim() is 2"),
        (lambda: ops.gather(x, 0, place.expand(2, 2, 3)[:, :, :1]), ValueError, "input.dim()"),
        (lambda: ops.gather(x[:, :2], 0, place), ValueError, "index.shape[1] is 3, expected at most 2"),
        (lambda: ops.gather(x, 0, place, sparse_grad=True), UnsupportedError, "sparse_grad is True"),
        (lambda: ops.gather(x.to(torch.complex64), 0, place), TypeError, "input.dtype is complex64"),
        (lambda: ops.take_along_dim(x, at, 0), ValueError, "indices.dim() is 1"),
        (lambda: ops.take_along_dim(x, place[:, :2], 0), ValueError, "indices.shape[1] is 2, expected 3"),
        (lambda: ops.take_along_dim(x, place.int(), 0), TypeError, "indices.dtype is int32"),
        (lambda: ops.index_select(x, 0, place), ValueError, "index.dim() is 2"),
        (lambda: ops.index_select(x, 2, at), IndexError, "dim is 2"),
        (lambda: ops.index_add(x, 0, at, y[:1]), ValueError, "source.shape is [1, 3], expected [2, 3]"),
        (lambda: ops.index_add(x, 0, at, y.double()), TypeError, "source.dtype"),
        (lambda: ops.index_add(x, 0, at, y, alpha="2"), TypeError, "alpha"),  # type: ignore[arg-type]
        (lambda: ops.scatter_add(x, 0, place, y[:, :2]), ValueError, "index.shape[1] is 3, expected at most 2"),
        (lambda: ops.scatter_add(x, 0, place, y.half()), TypeError, "src.dtype"),
        (lambda: ops.scatter_reduce(x, 0, place, y, "max"), ValueError, "reduce is 'max'"),
        (lambda: ops.index_reduce(x, 0, at, y, "sum"), ValueError, "reduce is 'sum', expected one of mean"),
        (lambda: ops.index_reduce(x, 0, at, y[:1], "amax"), ValueError, "source.shape is [1, 3], expected [2, 3]"),
        (lambda: ops.index_put(x, (), y), ValueError, "indices is empty"),
        (lambda: ops.index_put(x, (at, at, at), y), IndexError, "indices is for 3 dimensions, expected at most 2"),
        (lambda: ops.index_put(x, (at.bool(),), y), ValueError, "indices[0].shape is [2], expected [4]"),
        (lambda: ops.index_put(x, (at,), y[:, :2]), ValueError, "values.shape is (2, 2)"),
        (lambda: ops.index_put(x, (at.float(),), y), TypeError, "indices[0].dtype"),
        (lambda: ops.bincount(place), ValueError, "input.dim() is 2"),
        (lambda: ops.bincount(at, y), ValueError, "weights.shape"),
        (lambda: ops.bincount(at.float()), TypeError, "input.dtype"),
        (lambda: ops.bincount(at, minlength=-1), ValueError, "minlength is -1"),
    ):
        assert_rejected(call, kind, words, tensors=(x, y))


def test_index_ops__empty() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    x = uniform(1, 4, 3)
    assert ops.gather(x, 0, none.view(0, 3)).shape == (0, 3)
    assert ops.index_select(x, 0, none).shape == (0, 3)
    assert ops.index_select(x[:, :0], 0, torch.tensor([1, 2])).shape == (2, 0)
    assert_same_bits(ops.index_add(x, 0, none, x[:0]), x)
    assert_same_bits(ops.scatter_add(x, 0, none.view(0, 3), x[:0]), x)
    assert_same_bits(ops.index_put(x, (none,), x[:0]), x)
    assert_rejected(lambda: ops.index_select(x[:0], 0, torch.tensor([0])), IndexError, "index[0] is 0")


def test_index_ops__number_of_threads() -> None:
    x, y, at = uniform(1, 50, 130), uniform(2, 3000, 130), index(2, 50, 3000) // 3
    before, results = repdl.get_num_threads(), []
    try:
        for threads in (1, 3):
            repdl.set_num_threads(threads)
            results.append(ops.scatter_add(x, 0, at[:, None].expand(3000, 130), y))
    finally:
        repdl.set_num_threads(before)
    assert_same_bits(*results)


def test_index_ops__indices_on_the_host_of_a_tensor_elsewhere() -> None:
    x, at = torch.empty(3, 4, device="meta"), torch.tensor([1, 2])
    assert ops.index(x, [at]).shape == (2, 4)
    for accumulate in (False, True):
        assert ops.index_put(x, (at, at), x[0, :2], accumulate).shape == (3, 4)
