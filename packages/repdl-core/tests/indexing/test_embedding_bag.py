"""embedding_bag and max_norm: against torch, the order of sums, what is in no bag, errors."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.ops.indexing import _index_reduce
from repdl.tensors import values as host
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import assert_rejected

AT, OFFSETS = index(2, 7, 30), torch.tensor([0, 4, 4, 9, 30])
"""Indices of 7 rows, and where their bags begin; the second and the last one are empty."""


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
def test_embedding_bag__as_torch(mode: str, padding: int | None) -> None:
    weight = uniform(1, 7, 5)
    forms: list[tuple[torch.Tensor, dict[str, Any]]] = [
        (AT, {"offsets": OFFSETS}),
        (AT.int(), {"offsets": OFFSETS.int()}),
        (AT, {"offsets": OFFSETS, "include_last_offset": True}),
        (AT.view(6, 5), {}),
        (torch.full((2, 3), 3), {}),
        (AT[:0], {"offsets": torch.zeros(3, dtype=torch.int64)}),
    ]
    for at, options in forms:
        leaf, exact = weight.clone().requires_grad_(), weight.double().requires_grad_()
        options = {**options, "mode": mode, "padding_idx": padding}
        result, expected = ops.embedding_bag(at, leaf, **options), F.embedding_bag(at, exact, **options)
        # Sums of at most 30 terms below 1: 30 roundings of at most 30 units each.
        torch.testing.assert_close(result.double(), expected, rtol=0, atol=900 * 2.0**-24)
        g = uniform(2, *result.shape)
        grads = torch.autograd.grad(result, leaf, g)[0], torch.autograd.grad(expected, exact, g.double())[0]
        torch.testing.assert_close(grads[0].double(), grads[1], rtol=0, atol=900 * 2.0**-24)


@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_embedding_bag__order_of_sums(contract: str) -> None:
    weight, at = uniform(1, 50, 3) * 2.0 ** (torch.arange(50) % 9).unsqueeze(1), index(2, 50, 700)
    factors, begins = uniform(3, 700), [0, 300, 310, 700]
    result = ops.embedding_bag(
        at, weight, torch.tensor(begins[:-1]), mode="sum", per_sample_weights=factors, contract=contract
    )
    mean = ops.embedding_bag(at, weight, torch.tensor(begins[:-1]), contract=contract)
    for i, (a, b) in enumerate(pairwise(begins)):
        terms = ops.mul(weight[at[a:b]], factors[a:b, None])
        assert_same_bits(result[i], ops.sum(terms, 0, contract=contract))
        assert_same_bits(mean[i], ops.mean(weight[at[a:b]], 0, contract=contract))


@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bag__largest_where_a_device_knows_the_lengths(
    padding: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same elements are chosen, of equal ones the first, of zeros and of NaN too, and get the gradient."""
    table = torch.tensor([[0.0, 1.0], [-0.0, math.nan], [5.0, 5.0], [-1.0, math.nan], [0.0, 1.0]])
    at, offsets = index(5, 7, 300) % 5, torch.arange(0, 297, 3).repeat_interleave(2)  # every other bag is empty

    def call() -> list[torch.Tensor]:
        weight = table.clone().requires_grad_()
        found = ops.embedding_bag(at, weight, offsets, mode="max", padding_idx=padding)
        found.backward(uniform(6, *found.shape))
        assert weight.grad is not None
        return [found, weight.grad]

    expected = call()
    monkeypatch.setattr(host, "is_on_host", lambda tensor: False)
    largest = []
    module, first_largest = sys.modules["repdl.ops.indexing.embedding_bag"], _index_reduce.first_largest
    monkeypatch.setattr(module, "first_largest", lambda *args, **kw: largest.append(1) or first_largest(*args, **kw))
    assert_same_bits(call(), expected)
    assert largest


@pytest.mark.parametrize("other", [1, 3])
def test_embedding_bag__first_nan_whatever_the_other_bags(other: int) -> None:
    weight = torch.tensor([[1.0], [math.nan], [math.nan], [2.0]], requires_grad=True)
    at = torch.cat([torch.tensor([0, 1, 2]), torch.zeros(other, dtype=torch.int64)])
    ops.embedding_bag(at, weight, torch.tensor([0, 3]), mode="max")[0].backward(torch.ones(1))
    assert weight.grad is not None and weight.grad.view(-1).tolist() == [0, 1, 0, 0]


def test_embedding_bag__derivatives() -> None:
    weight, factors = uniform(1, 7, 3).double().requires_grad_(), uniform(2, 6, 5).double().requires_grad_()
    at = AT.view(6, 5)
    for mode in ("sum", "mean", "max"):
        function = lambda w: ops.embedding_bag(at, ops.mul(w, w), mode=mode, padding_idx=2)
        assert torch.autograd.gradcheck(function, weight, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, weight, fast_mode=True)
    weighted = lambda w, f: ops.embedding_bag(at, w, mode="sum", per_sample_weights=f)
    assert torch.autograd.gradcheck(weighted, (weight, factors), fast_mode=True)
    assert torch.autograd.gradgradcheck(weighted, (weight, factors), fast_mode=True)
    leaf, exact = uniform(1, 7, 3).requires_grad_(), uniform(1, 7, 3).double().requires_grad_()
    ops.embedding_bag(at, leaf, mode="mean", scale_grad_by_freq=True).backward(uniform(3, 6, 3))
    # torch's embedding_bag divides by the frequency of other rows (2.13); its embedding does not.
    F.embedding(at, exact, scale_grad_by_freq=True).mean(1).backward(uniform(3, 6, 3).double())
    torch.testing.assert_close(leaf.grad, exact.grad, check_dtype=False)


def test_embedding_bag__bags_halves_and_other_bags() -> None:
    weight, at = uniform(1, 7, 5), AT.view(6, 5)
    for mode in ("sum", "mean", "max"):
        whole = ops.embedding_bag(at, weight, mode=mode)
        for i in range(6):
            assert_same_bits(ops.embedding_bag(at[i : i + 1], weight, mode=mode)[0], whole[i])
        assert_same_bits(ops.embedding_bag(AT, weight, torch.arange(0, 30, 5), mode=mode), whole)
        for dtype in (torch.bfloat16, torch.float16):
            wide = ops.embedding_bag(at, weight.to(dtype).float(), mode=mode)
            assert_same_bits(ops.embedding_bag(at, weight.to(dtype), mode=mode), ops.cast(wide, dtype))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag__compiled(mode: str) -> None:
    torch._dynamo.reset()
    weight = uniform(1, 7, 5).requires_grad_()
    function = lambda at: ops.embedding_bag(at, weight, mode=mode, padding_idx=3)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    expected, actual = function(AT.view(6, 5)), compiled(AT.view(6, 5))
    assert_same_bits(actual.detach(), expected.detach())
    assert_same_bits(*(torch.autograd.grad(o, weight, uniform(2, 6, 5))[0] for o in (actual, expected)))


def test_max_norm__as_torch() -> None:
    """A norm of 5 terms, a quotient and a product: at most 12 roundings, of a root or power half as much."""
    for dtype in (torch.float32, torch.float64):
        for p in (1, 2, 2.5, math.inf):
            if dtype is torch.float64 and p == 2.5:
                continue
            for call in ("embedding", "embedding_bag"):
                weight = uniform(1, 9, 5).to(dtype)
                exact, before = weight.double(), weight.clone()
                ours = getattr(ops, call)(AT.view(6, 5), weight, max_norm=0.9, norm_type=p)
                theirs = getattr(F, call)(AT.view(6, 5), exact, max_norm=0.9, norm_type=p)
                torch.testing.assert_close(weight.double(), exact, rtol=12 * 2.0**-24, atol=0)
                torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-6)
                assert_same_bits(weight[7:], before[7:])
                assert not torch.equal(weight, before)
    weight, again = uniform(1, 9, 5), uniform(1, 9, 5)
    for _ in range(4):  # calls are not replayed
        ops.embedding(AT, weight, max_norm=0.5)
        weight[0] = 3.0
        ops.embedding(AT[:1] * 0, weight, max_norm=0.5)
        assert weight[0].norm() < 0.51
    leaf = again.clone().requires_grad_()
    ops.embedding(AT, leaf, max_norm=0.5).backward(torch.ones(30, 5))
    assert_same_bits(leaf.grad[:, 0], torch.bincount(AT, minlength=9).float())  # type: ignore[index]
    half = again.bfloat16()
    ops.embedding(AT, half, max_norm=0.5)
    wide = again.bfloat16().float()
    ops.embedding(AT, wide, max_norm=0.5)
    assert_same_bits(half, ops.cast(wide, torch.bfloat16))


def test_max_norm__compiled() -> None:
    torch._dynamo.reset()
    function = lambda at, w: ops.embedding(at, w, max_norm=0.5)
    expected, actual = uniform(1, 9, 5), uniform(1, 9, 5)
    output = function(AT, expected)
    assert_same_bits(torch.compile(function, backend="aot_eager", fullgraph=True)(AT, actual), output)
    assert_same_bits(actual, expected)


def test_embedding_bag__rejects() -> None:
    weight, at = uniform(1, 7, 5), AT.view(6, 5)
    cases: list[tuple[torch.Tensor, dict[str, Any], type[Exception], str]] = [
        (AT, {}, ValueError, "offsets is None"),
        (at, {"offsets": OFFSETS}, ValueError, "offsets is given with a 2-D input"),
        (at[None], {}, ValueError, "input.dim() is 3"),
        (AT, {"offsets": OFFSETS + 1}, ValueError, "offsets[0] is 1"),
        (AT, {"offsets": OFFSETS[None]}, ValueError, "offsets.dim() is 2"),
        (AT, {"offsets": torch.tensor([0, 31])}, ValueError, "offsets[1] is 31, expected at most 30"),
        (at, {"mode": "min"}, ValueError, "mode is 'min'"),
        (at, {"mode": "max", "scale_grad_by_freq": True}, ValueError, "scale_grad_by_freq is True"),
        (at, {"padding_idx": 7}, IndexError, "padding_idx is 7"),
        (at, {"per_sample_weights": weight, "mode": "sum"}, ValueError, "per_sample_weights.shape"),
        (at + 7, {}, IndexError, "input[0, 0] is"),
        (at.float(), {}, TypeError, "input.dtype is float32"),
    ]
    for indices, options, kind, words in cases:
        by_torch = lambda: F.embedding_bag(indices, weight, **options)
        assert_rejected(lambda: ops.embedding_bag(indices, weight, **options), kind, words, by_torch=by_torch)
    factors = uniform(1, 6, 5)
    assert_rejected(lambda: ops.embedding_bag(AT, weight, OFFSETS.flip(0)), ValueError, "offsets[0] is 30")
    assert_rejected(lambda: ops.embedding_bag(at, weight, sparse=True), UnsupportedError, "sparse is True")
    assert_rejected(
        lambda: ops.embedding_bag(at, weight, per_sample_weights=factors), UnsupportedError, "with mode 'mean'"
    )
    assert_rejected(lambda: ops.embedding(at, weight, max_norm="1"), TypeError, "max_norm")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.embedding(at, weight, max_norm=1, norm_type=0), ValueError, "norm_type is 0")


def test_embedding_bag__without_bags_has_no_rows() -> None:
    weight, at = uniform(1, 4, 3).requires_grad_(), torch.tensor([0, 1])
    for options in (
        {"offsets": torch.zeros(0, dtype=torch.int64)},
        {"offsets": at[:1] + 2, "include_last_offset": True},
    ):
        for backend in ("cpu", "reference"):
            with repdl.use_backend(backend):
                result = ops.embedding_bag(at, weight, mode="sum", **options)
                assert result.shape == (0, 3)
                (grad,) = torch.autograd.grad(result.sum(), weight)
                assert (grad == 0).all()
