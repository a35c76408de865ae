"""What is particular to index_sum and embedding: the order of terms, torch's options, derivatives, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import assert_multilinear, assert_rejected

index_sum = torch.ops.repdl.index_sum
theirs = torch.nn.functional.embedding
CONTRACTS = pytest.mark.parametrize("contract", ["v1", "sequential", "dot_chunk=256,sum_lanes=4,sum_block=16"])


def indices() -> dict[str, tuple[torch.Tensor, int]]:
    """Name -> indices and the number of rows."""
    return {
        "all equal": (torch.full((700,), 3), 5),
        "none": (torch.zeros(0, dtype=torch.int64), 4),
        "each once": (torch.arange(40).flip(0), 40),
        "a long run between others": (torch.cat([index(1, 6, 90), torch.full((1300,), 2), index(2, 6, 90)]), 6),
        "many rows without terms": (index(3, 9, 60) * 111, 1000),
        "batch": (index(4, 7, 3, 5, 4), 7),
        "transposed": (index(4, 7, 3, 50).t(), 7),
        "expanded": (index(4, 7, 1, 50).expand(12, 50), 7),
        "one": (torch.tensor(2), 7),
    }


@CONTRACTS
def test_index_sum__is_the_sum_of_the_terms_of_each_row(contract: str) -> None:
    for name, (at, size) in indices().items():
        at = at.reshape(-1)
        for width in (1, 3, 70):
            values = uniform(5, len(at), width)
            result = index_sum(values, at, size, contract)
            for k in sorted({0, size - 1, *at[:5].tolist()}):
                assert_same_bits(result[k], ops.sum(values[at == k], 0, contract=contract), f"{name}: row {k}")


def test_index_sum__forbidden_rewrite_in_another_order() -> None:
    # One chain in ascending n would keep the 1 that lane 0 loses; lanes by n, and not by the number of the term, too.
    values, at = torch.zeros(260, 1), torch.arange(260) % 2
    values[0], values[128], values[256] = 2.0**25, 1.0, -(2.0**25)
    assert index_sum(values, at, 2, "v1").flatten().tolist() == [0, 0]
    values[128], values[130] = 0.0, 1.0
    assert index_sum(values, at, 2, "v1").flatten().tolist() == [1, 0]


def test_index_sum__other_rows_do_not_change_the_bits() -> None:
    values, at = uniform(1, 900, 3), index(2, 4, 900)
    alone = index_sum(values[at == 2], at[at == 2], 3, "v1")[2]
    assert_same_bits(index_sum(values, at, 4, "v1")[2], alone)


@pytest.mark.parametrize("padding", [None, 2, -1])
def test_embedding__agrees_with_torch(padding: int | None) -> None:
    for at, size in indices().values():
        weight = uniform(1, size, 6)
        assert_same_bits(ops.embedding(at, weight, padding), theirs(at, weight, padding))
        assert_multilinear(
            lambda t, at=at: ops.embedding(at, t, padding),
            lambda t, at=at: theirs(at, t, padding),
            [weight],
            at.numel() + 3,
            uniform(2, *at.shape, 6),
            second=False,
        )


def test_embedding__padding_gets_positive_zeros_and_changes_no_other_row() -> None:
    weight, at = uniform(1, 5, 3), index(2, 5, 900)
    grads = []
    for padding in (None, 2):
        leaf = weight.clone().requires_grad_()
        ops.embedding(at, leaf, padding).backward(uniform(3, 900, 3))
        assert leaf.grad is not None and leaf.grad.shape == weight.shape
        grads.append(leaf.grad)
    plain, padded = grads
    plain[2] = 0
    assert plain.abs().max() > 0
    assert_same_bits(padded, plain)


def test_embedding__scale_grad_by_freq() -> None:
    at, cotangent = torch.tensor([[1, 1, 3], [1, 0, 3]]), uniform(2, 2, 3, 4)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        leaf = uniform(1, 5, 4).to(dtype).requires_grad_()
        ops.embedding(at, leaf, 0, scale_grad_by_freq=True).backward(cotangent.to(dtype))
        wide = cotangent.to(dtype).to(torch.float64 if dtype is torch.float64 else torch.float32).reshape(6, 4)
        total = index_sum(wide, at.reshape(-1), 5, "v1")
        expected = ops.cast(total / torch.tensor([[1], [3], [1], [2], [1]]), dtype)
        expected[0] = 0
        assert leaf.grad is not None
        assert_same_bits(leaf.grad, expected)
    leaf, exact = uniform(1, 5, 4).requires_grad_(), uniform(1, 5, 4).double().requires_grad_()
    ops.embedding(at, leaf, 0, scale_grad_by_freq=True).backward(cotangent)
    theirs(at, exact, 0, scale_grad_by_freq=True).backward(cotangent.double())
    torch.testing.assert_close(leaf.grad, exact.grad, check_dtype=False)


def test_embedding__derivatives_of_any_order() -> None:
    at = torch.tensor([[1, 1, 3], [1, 0, 3]])
    weight = uniform(1, 5, 2).double().requires_grad_()
    for options in ({}, {"padding_idx": 1}, {"padding_idx": 0, "scale_grad_by_freq": True}):
        function = lambda w, o=options: ops.mul(ops.embedding(at, w, **o), ops.embedding(at, w, **o))
        if "scale_grad_by_freq" not in options and "padding_idx" not in options:  # those change the gradient alone
            assert torch.autograd.gradcheck(function, weight)
        # The derivative of the gradient: by its cotangent, as of every linear function.
        cotangent = uniform(2, 2, 3, 2).double().requires_grad_()

        def gradient(c: torch.Tensor, o: Any = options) -> torch.Tensor:
            return torch.autograd.grad(ops.embedding(at, weight, **o), weight, c, create_graph=True)[0]

        assert torch.autograd.gradcheck(gradient, cotangent)
        assert torch.autograd.gradgradcheck(gradient, cotangent)
    values = uniform(3, 6, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: index_sum(v, at.reshape(-1), 5, "v1"), values)


def test_embedding__moves_bits() -> None:
    """A NaN keeps its sign and payload, a half its bits; torch's does, too."""
    for dtype, whole in ((torch.float32, torch.int32), (torch.bfloat16, torch.int16), (torch.float64, torch.int64)):
        bits = torch.tensor([[-1], [-2], [3]], dtype=whole)
        result = ops.embedding(torch.tensor([1, 0, 1, 2]), bits.view(dtype))
        assert result.view(whole).flatten().tolist() == [-2, -1, -2, 3]


def test_embedding__int32_indices_are_the_same() -> None:
    at, weight = index(2, 9, 4, 5), uniform(1, 9, 3).requires_grad_()
    grads = []
    for kind in (torch.int64, torch.int32):
        output = ops.embedding(at.to(kind), weight)
        assert_same_bits(output, weight.detach()[at])
        grads += torch.autograd.grad(output, weight, uniform(3, 4, 5, 3))
    assert_same_bits(*grads)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2, "scale_grad_by_freq": True}])
@pytest.mark.parametrize("dynamic", [False, True])
def test_embedding__compiled(options: dict[str, Any], dynamic: bool) -> None:
    torch._dynamo.reset()
    weight = uniform(1, 9, 3).requires_grad_()
    function = lambda at: ops.mul(ops.embedding(at, weight, **options), 0.3)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for n in (200, 30):
        at = index(2, 9, n)
        expected, actual = function(at), compiled(at)
        assert_same_bits(actual, expected)
        grads = [torch.autograd.grad(o, weight, uniform(3, n, 3))[0] for o in (actual, expected)]
        assert_same_bits(*grads)


def test_embedding__repeated_calls_and_checks() -> None:
    """Calls that are replayed check their indices, too."""
    weight = uniform(1, 9, 3)
    for leaf in (weight, weight.clone().requires_grad_()):
        for n in range(5):
            at = index(n, 9, 20)
            assert_same_bits(ops.embedding(at, leaf).detach(), weight[at])
        bad = at.clone()
        bad[7] = 9
        assert_rejected(lambda: ops.embedding(bad, leaf), IndexError, "index[7] is 9", "0 to 8")


def test_embedding__vmap_and_func() -> None:
    weight, at = uniform(1, 9, 3), index(2, 9, 4, 5)
    loss = lambda w, i: ops.sum(ops.mul(ops.embedding(i, w), ops.embedding(i, w)))
    rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, at)
    for i in range(4):
        leaf = weight.clone().requires_grad_()
        assert_same_bits(rows[i], torch.autograd.grad(loss(leaf, at[i]), leaf)[0])


@pytest.mark.parametrize(("at", "padding", "kind", "words"), [
    ([0, 5], None, IndexError, "index[1] is 5, expected 0 to 4"),
    ([[0, 1], [-1, 0]], None, IndexError, "index[1, 0] is -1"),
    ([0, 1], 5, IndexError, "padding_idx is 5, expected -5 to 4"), ([0, 1], -6, IndexError, "padding_idx is -6"),
])  # fmt: skip
def test_embedding__rejects_values(at: Any, padding: Any, kind: type[Exception], words: str) -> None:
    weight = uniform(1, 5, 3)
    assert_rejected(
        lambda: ops.embedding(torch.tensor(at), weight, padding),
        kind,
        "embedding: ",
        words,
        tensors=(weight,),
        by_torch=lambda: theirs(torch.tensor(at), weight, padding),
    )


def test_embedding__rejects_types_and_shapes() -> None:
    weight, at = uniform(1, 5, 3), torch.tensor([0, 1])
    for bad in (at.float(), at.bool(), at.to(torch.int16), at.to(torch.uint8)):
        assert_rejected(
            lambda: ops.embedding(bad, weight), TypeError, "input.dtype", by_torch=lambda: theirs(bad, weight)
        )
    for table in (weight[0], weight[None]):
        assert_rejected(lambda: ops.embedding(at, table), ValueError, "weight.dim()")
    assert_rejected(lambda: ops.embedding(at, weight.long()), TypeError, "weight.dtype")
    assert_rejected(lambda: ops.embedding([0], weight), TypeError, "input")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.embedding(at, weight, 1.0), TypeError, "padding_idx")  # type: ignore[arg-type]
    for option in ({"sparse": 1}, {"scale_grad_by_freq": None}, {"norm_type": "2"}):
        assert_rejected(lambda: ops.embedding(at, weight, **option), TypeError, next(iter(option)))
    assert_rejected(lambda: ops.embedding(at[:1], weight[:0]), IndexError, "index[0] is 0")


def test_embedding__left_out() -> None:
    weight, at = uniform(1, 5, 3), torch.tensor([0, 1])
    assert_rejected(lambda: ops.embedding(at, weight, sparse=True), UnsupportedError, "sparse is True")


def test_index_sum__rejects() -> None:
    values, at = uniform(1, 4, 3), torch.tensor([0, 1, 1, 2])
    assert_rejected(lambda: index_sum(values, at, 2, "v1"), IndexError, "index[3] is 2, expected 0 to 1")
    assert_rejected(lambda: index_sum(values, at - 1, 3, "v1"), IndexError, "index[0] is -1")
    assert_rejected(lambda: index_sum(values, at.int(), 3, "v1"), TypeError, "index.dtype")
    assert_rejected(lambda: index_sum(values, at[:3], 3, "v1"), ValueError, "index.shape[0] is 3, expected 4")
    assert_rejected(lambda: index_sum(values[0], at, 3, "v1"), ValueError, "values.dim()")
    assert_rejected(lambda: index_sum(values, at[None], 3, "v1"), ValueError, "index.dim()")
    assert_rejected(lambda: index_sum(values, at, -1, "v1"), ValueError, "size is -1")


def test_index_sum__number_of_threads() -> None:
    values, at = uniform(1, 3000, 130), index(2, 50, 3000) // 3
    before, results = repdl.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            repdl.set_num_threads(threads)
            results.append(index_sum(values, at, 50, "v1"))
    finally:
        repdl.set_num_threads(before)
    for result in results[1:]:
        assert_same_bits(result, results[0])
    assert results[0].abs().max() > 0
