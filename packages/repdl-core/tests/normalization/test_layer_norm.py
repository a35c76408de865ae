"""What is particular to layer_norm: gradients, layouts, forbidden rewrites, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

theirs = torch.nn.functional.layer_norm


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rest=st.lists(st.integers(0, 3), max_size=2),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    weighted=st.booleans(),
    biased=st.booleans(),
    eps=st.sampled_from([1e-5, 0.1, 1]),
)
def test_layer_norm__agrees_with_torch(
    rest: list[int], shape: list[int], weighted: bool, biased: bool, eps: float
) -> None:
    x = uniform(1, *rest, *shape)
    tensors = [x, *([uniform(2, *shape)] if weighted else []), *([uniform(3, *shape)] if biased else [])]

    def run(function: Any, *t: torch.Tensor) -> torch.Tensor:
        return function(t[0], shape, t[1] if weighted else None, t[-1] if biased else None, eps)

    grad = uniform(6, *x.shape)
    results = derivatives(lambda *t: run(ops.layer_norm, *t), tensors, grad)
    expected = derivatives(lambda *t: run(theirs, *t), [t.double() for t in tensors], grad.double())
    dims = tuple(range(-len(shape), 0))
    var = x.double().var(dims, unbiased=False) if x.numel() else torch.ones(0)
    n, rows = max(1, uniform(1, *shape).numel()), max(1, var.numel())
    # As in batch_norm's test: an element of h, at most 2 * a with a = 1 / std, is off by (n + 2) * U * a and
    # the relative error of the variance. A gradient has a factor more of a and of h; those of weight and
    # bias add up `rows` of them.
    a = 1 / (var + eps).sqrt().min().item() if var.numel() else 1.0
    error = (3 * n + 12) * U * (1 + a) ** 2 * 2
    for i, (r, e) in enumerate(zip(results, expected)):
        assert_within(r, e, error if i == 0 else (error + rows * U) * (1 + a) ** 2 * n * rows, f"{i}")


def test_layer_norm__layout_does_not_change_the_bits() -> None:
    x = uniform(1, 4, 3, 6, 5)
    weight, bias = uniform(2, 12, 5)[::2], uniform(3, 1).expand(6, 5)
    for layout in (x[::2], x[:1].expand(4, 3, 6, 5), torch._neg_view(x), x.to(memory_format=torch.channels_last)):
        dense = layout.resolve_neg().contiguous()
        assert_same_bits(
            ops.layer_norm(layout, [6, 5], weight, bias),
            ops.layer_norm(dense, (6, 5), weight.contiguous(), bias.contiguous()),
        )


def test_layer_norm__a_row_is_that_of_the_flat_shape() -> None:
    x, weight = uniform(1, 7, 4, 5), uniform(2, 4, 5)
    assert_same_bits(
        ops.layer_norm(x, x.shape[1:], weight).flatten(1),
        ops.layer_norm(x.flatten(1), [20], weight.flatten()),
    )


def test_layer_norm__forbidden_rewrite_mean_of_squares() -> None:
    # E[x**2] - E[x]**2 cancels: around 4096, the variance of +-1 is 1, and all squares round.
    x = torch.tensor([4095.0, 4097.0] * 8) + 2.0**-11
    expected = torch.tensor([-1.0, 1.0] * 8).double()
    assert_within(ops.layer_norm(x, [16], eps=0.0), expected, 4 * U)


def test_layer_norm__forbidden_rewrite_folded_scale_and_shift() -> None:
    # (x - mean) * rstd, not x * rstd + (-mean * rstd): with x = mean the result is exactly the bias.
    bias = uniform(1, 64)
    assert_same_bits(ops.layer_norm(torch.full((64,), 0.1), [64], uniform(2, 64), bias), bias)


def test_layer_norm__forbidden_rewrite_rsqrt() -> None:
    # 1 / sqrt(v) has two roundings: for v = 0.3 they give another float than the exact 1 / sqrt(0.3) rounded once.
    values = (uniform(1, 1000) + 1.5).double()
    twice = (1 / values.float().sqrt()).double()
    once = (1 / values.sqrt()).float().double()
    (which,) = (twice != once).nonzero()[:1, 0].tolist()
    _, _, rstd = torch.ops.repdl.layer_norm(torch.zeros(1, 2), [2], None, None, values[which].item(), "v1")
    assert rstd.double().item() == twice[which].item()


BAD: list[tuple[Any, Any, list[Any], str]] = [
    ((5, 3), [4], [None, None], "input.shape[-1:] is (3,)"),
    ((5, 3), [], [None, None], "normalized_shape is empty"),
    ((3,), [5, 3], [None, None], "input.dim() is 1"),
    ((5, 3), [5, 3], [(3,), None], "weight.shape is (3,)"),
    ((5, 3), [3], [(3,), (1,)], "bias.shape is (1,)"),
    ((), [1], [None, None], "input.dim() is 0"),
]


@pytest.mark.parametrize(("shape", "normalized_shape", "vectors", "words"), BAD)
def test_layer_norm__rejects(shape: tuple[int, ...], normalized_shape: Any, vectors: list[Any], words: str) -> None:
    t = [None if v is None else uniform(2, *v) for v in vectors]
    x = uniform(1, *shape)
    assert_rejected(
        lambda: ops.layer_norm(x, normalized_shape, *t),
        ValueError,
        "layer_norm: ",
        words,
        tensors=[x],
        by_torch=lambda: theirs(x, normalized_shape, *t),
    )


@pytest.mark.parametrize("options", [{"normalized_shape": 3}, {"normalized_shape": [3.0]}, {"eps": "a"}, {"weight": 1}])
def test_layer_norm__rejects_types(options: dict[str, Any]) -> None:
    (name,) = options
    args = {"normalized_shape": [3], **options}
    assert_rejected(lambda: ops.layer_norm(uniform(1, 5, 3), **args), TypeError, f"layer_norm: {name}")
    assert_rejected(lambda: ops.layer_norm(None, [3]), TypeError, "layer_norm: input")


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_layer_norm__rejects_dtypes_and_devices(which: int, dtype: torch.dtype) -> None:
    good = [uniform(1, 5, 3), torch.ones(3), torch.zeros(3)]
    for change, kind in ((dtype, TypeError), ("meta", ValueError)):
        x, weight, bias = (t.to(change) if i == which else t for i, t in enumerate(good))
        assert_rejected(
            lambda: ops.layer_norm(x, [3], weight, bias), kind, "layer_norm", str(change).removeprefix("torch.")
        )
