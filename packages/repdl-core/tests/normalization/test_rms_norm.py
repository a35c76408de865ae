"""What is particular to rms_norm: gradients, the default of eps, forbidden rewrites, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import OLDER, U, assert_rejected, assert_within, derivatives

theirs = torch.nn.functional.rms_norm


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rest=st.lists(st.integers(0, 3), max_size=2),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    weighted=st.booleans(),
    eps=st.sampled_from([None, 1e-5, 0.1, 1]),
)
def test_rms_norm__agrees_with_torch(rest: list[int], shape: list[int], weighted: bool, eps: float | None) -> None:
    x = uniform(1, *rest, *shape)
    tensors = [x, *([uniform(2, *shape)] if weighted else [])]
    exact_eps = 2.0**-23 if eps is None else eps  # torch's default follows the dtype, here float64

    def run(function: Any, epsilon: float | None, *t: torch.Tensor) -> torch.Tensor:
        return function(t[0], shape, t[1] if weighted else None, epsilon)

    grad = uniform(6, *x.shape)
    results = derivatives(lambda *t: run(ops.rms_norm, eps, *t), tensors, grad)
    expected = derivatives(lambda *t: run(theirs, exact_eps, *t), [t.double() for t in tensors], grad.double())
    q = x.double().square().mean(tuple(range(-len(shape), 0)))
    n, rows = max(1, uniform(1, *shape).numel()), max(1, q.numel())
    # h = x * r is at most a = 1 / rms, off by the relative error (n + 6) * U of r and a rounding. A
    # gradient has a factor more of a and of h; that of weight adds up `rows` of them.
    a = 1 / (q + exact_eps).sqrt().min().item() if q.numel() else 1.0
    error = (n + 12) * U * (1 + a)
    for i, (r, e) in enumerate(zip(results, expected)):
        assert_within(r, e, error if i == 0 else (error + rows * U) * (1 + a) ** 2 * n * rows, f"{i}")


def test_rms_norm__eps_none_is_that_of_float32() -> None:
    x = uniform(1, 3, 7, scale=2.0**-12)
    assert_same_bits(ops.rms_norm(x, [7]), ops.rms_norm(x, [7], eps=torch.finfo(torch.float32).eps))


def test_rms_norm__layout_does_not_change_the_bits() -> None:
    x = uniform(1, 4, 3, 6, 5)
    weight = uniform(2, 12, 5)[::2]
    for layout in (x[::2], x[:1].expand(4, 3, 6, 5), torch._neg_view(x), x.to(memory_format=torch.channels_last)):
        dense = layout.resolve_neg().contiguous()
        assert_same_bits(ops.rms_norm(layout, [6, 5], weight), ops.rms_norm(dense, (6, 5), weight.contiguous()))


def test_rms_norm__forbidden_rewrite_weight_first() -> None:
    # (x * rstd) * weight, not x * (rstd * weight): a row of equal elements has x * rstd = 1 before weight.
    x, weight = torch.full((64,), 3.0), uniform(1, 64)
    rstd = torch.tensor(1.0) / torch.tensor(9.0).sqrt()
    assert not torch.equal(3.0 * (rstd * weight), weight)
    assert_same_bits(ops.rms_norm(x, [64], weight, eps=0.0), weight)


BAD: list[tuple[Any, Any, Any, str]] = [
    ((5, 3), [4], None, "input.shape[-1:] is (3,)"),
    ((5, 3), [], None, "normalized_shape is empty"),
    ((3,), [5, 3], None, "input.dim() is 1"),
    ((5, 3), [5, 3], (3,), "weight.shape is (3,)"),
    ((5, 3), [3], (1,), "weight.shape is (1,)"),
]


@pytest.mark.parametrize(("shape", "normalized_shape", "vector", "words"), BAD)
def test_rms_norm__rejects(shape: tuple[int, ...], normalized_shape: Any, vector: Any, words: str) -> None:
    x, weight = uniform(1, *shape), None if vector is None else uniform(2, *vector)
    assert_rejected(
        lambda: ops.rms_norm(x, normalized_shape, weight),
        ValueError,
        "rms_norm: ",
        words,
        tensors=[x],
        by_torch=lambda: theirs(x, normalized_shape, weight),
    )


@pytest.mark.parametrize("options", [{"normalized_shape": 3}, {"normalized_shape": [3.0]}, {"eps": "a"}, {"weight": 1}])
def test_rms_norm__rejects_types(options: dict[str, Any]) -> None:
    (name,) = options
    args = {"normalized_shape": [3], **options}
    assert_rejected(lambda: ops.rms_norm(uniform(1, 5, 3), **args), TypeError, f"rms_norm: {name}")
    assert_rejected(lambda: ops.rms_norm(None, [3]), TypeError, "rms_norm: input")


def test_rms_norm__a_weight_of_a_narrower_dtype_is_widened() -> None:
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    for dtype in dtypes:
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        for other in dtypes[dtypes.index(wide) :]:
            x, weight = uniform(1, 5, 3).to(dtype), uniform(2, 3).to(other).requires_grad_()
            result = ops.rms_norm(x, [3], weight, 1e-5)
            assert result.dtype is theirs(x, [3], weight, 1e-5).dtype is dtype or OLDER
            if other is not dtype:
                assert_same_bits(result, ops.rms_norm(x, [3], weight.to(wide), 1e-5))
            (grad,) = torch.autograd.grad(ops.sum(result), weight)
            assert grad.dtype is other


@pytest.mark.parametrize("which", range(2))
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_rms_norm__rejects_dtypes_and_devices(which: int, dtype: torch.dtype) -> None:
    good = [uniform(1, 5, 3), torch.ones(3)]
    changes: list[tuple[Any, type[Exception]]] = [("meta", ValueError)]
    if which == 1 or dtype is torch.int64:  # a float64 input takes the weight that there is
        changes.append((dtype, TypeError))
    for change, kind in changes:
        x, weight = (t.to(change) if i == which else t for i, t in enumerate(good))
        assert_rejected(lambda: ops.rms_norm(x, [3], weight), kind, "rms_norm", str(change).removeprefix("torch."))
