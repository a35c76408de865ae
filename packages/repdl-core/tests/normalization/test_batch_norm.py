"""What is particular to batch_norm: statistics, their update, gradients, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

theirs = torch.nn.functional.batch_norm


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.integers(0, 4),
    c=st.integers(1, 3),
    rest=st.lists(st.integers(1, 3), max_size=2),
    training=st.booleans(),
    running=st.booleans(),
    weighted=st.booleans(),
    biased=st.booleans(),
    momentum=st.sampled_from([0, 0.1, 0.5, 1.0, 1]),
    eps=st.sampled_from([1e-5, 0.1, 1]),
)
def test_batch_norm__agrees_with_torch(
    n: int,
    c: int,
    rest: list[int],
    training: bool,
    running: bool,
    weighted: bool,
    biased: bool,
    momentum: float,
    eps: float,
) -> None:
    x = uniform(1, n, c, *rest)
    count = x.numel() // c
    training = training and count > 1
    running = running or not training
    tensors = [x, *([uniform(2, c)] if weighted else []), *([uniform(3, c)] if biased else [])]

    def run(function: Any, statistics: list[Any], *t: torch.Tensor) -> torch.Tensor:
        w = t[1] if weighted else None
        b = t[-1] if biased else None
        return function(t[0], *statistics, w, b, training, momentum, eps)

    ours = [uniform(4, c), uniform(5, c).abs() + 0.5] if running else [None, None]
    exact = [None if s is None else s.double() for s in ours]
    grad = uniform(6, *x.shape)
    results = derivatives(lambda *t: run(ops.batch_norm, ours, *t), tensors, grad)
    expected = derivatives(lambda *t: run(theirs, exact, *t), [t.double() for t in tensors], grad.double())
    var = x.double().transpose(0, 1).flatten(1).var(1, unbiased=False) if training else exact[1]
    # x and the mean are at most 1 in magnitude, off by (count + 2) * U; a = 1 / std: the centred and
    # scaled element, at most 2 * a, is off by that, times a, and by the relative error of the variance,
    # (2 * count + 6) * U * (1 + a) of it. A gradient has a factor more of a and of such an element.
    a = 1 / (var + eps).sqrt().min().item()
    error = (3 * count + 12) * U * (1 + a) ** 2 * 2
    for i, (r, e) in enumerate(zip(results, expected)):
        assert_within(r, e, error if i == 0 else error * (1 + a) ** 2 * max(count, 1), f"{i} {training}")
    for r, e in zip(ours, exact):
        if e is not None:
            assert_within(r, e, (2 * count + 10) * U * 4, "running")


def test_batch_norm__evaluation_leaves_the_statistics() -> None:
    mean, var = uniform(1, 3), uniform(2, 3).abs()
    before = mean.clone(), var.clone()
    ops.batch_norm(uniform(3, 5, 3), mean, var, training=False)
    assert_same_bits([mean, var], before)


def test_batch_norm__layout_does_not_change_the_bits() -> None:
    x = uniform(1, 4, 3, 5, 2)
    weight, bias = uniform(2, 6)[::2], uniform(3, 1).expand(3)
    for layout in (
        x.transpose(2, 3),
        x[::2],
        x[:1].expand(4, 3, 5, 2),
        torch._neg_view(x),
        x.to(memory_format=torch.channels_last),
    ):
        dense = layout.resolve_neg().contiguous()
        assert_same_bits(
            ops.batch_norm(layout, None, None, weight, bias, True),
            ops.batch_norm(dense, None, None, weight.contiguous(), bias.contiguous(), True),
        )
    strided = torch.zeros(6)[::2]
    ops.batch_norm(x, strided, torch.ones(3), training=True)
    dense = torch.zeros(3)
    ops.batch_norm(x, dense, torch.ones(3), training=True)
    assert_same_bits(strided, dense)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0), (0, 3)], ids=str)
def test_batch_norm__training_without_values_leaves_the_statistics(shape: tuple[int, ...]) -> None:
    results = []
    for f in (ops.batch_norm, theirs):
        x, weight, bias = (t.requires_grad_() for t in (torch.ones(shape), uniform(4, 3), uniform(5, 3)))
        mean, var = uniform(1, 3), uniform(2, 3).abs()
        output = f(x, mean, var, weight, bias, True)
        results.append([output, *torch.autograd.grad(output.sum(), (x, weight, bias)), mean, var])
    assert_same_bits(*results)


def test_batch_norm__forbidden_rewrite_mean_of_squares() -> None:
    # E[x**2] - E[x]**2 cancels: around 4096, the variance of +-1 is 1, and all squares round.
    x = torch.tensor([4095.0, 4097.0] * 8)[:, None] + 2.0**-11
    var = torch.ones(1)
    ops.batch_norm(x, torch.zeros(1), var, training=True, momentum=1.0)
    assert var.item() == pytest.approx(16 / 15, rel=4 * U)


def test_batch_norm__forbidden_rewrite_folded_scale_and_shift() -> None:
    # (x - mean) * invstd, not x * invstd + (-mean * invstd): with x = mean the result is exactly 0.
    x, mean, var = torch.tensor([[0.1]]), torch.tensor([0.1]), torch.tensor([0.3])
    assert ops.batch_norm(x, mean, var, eps=1e-5).item() == 0


BAD: list[tuple[Any, list[Any], dict[str, Any], str]] = [
    ((5, 3), [(4,), (3,), (3,), (3,)], {"training": True}, "running_mean.shape[0] is 4"),
    ((5, 3), [(3,), (2,), (3,), (3,)], {}, "running_var.shape[0] is 2"),
    ((5, 3), [(3,), (3,), (1,), (3,)], {}, "weight.shape[0] is 1"),
    ((5, 3), [(3,), (3,), (3,), (4,)], {"training": True}, "bias.shape[0] is 4"),
    ((5, 3), [None, None, None, None], {}, "running_mean"),
    ((1, 3), [(3,), (3,), None, None], {"training": True}, "1 value a channel"),
    ((1, 3, 1, 1), [None, None, None, None], {"training": True}, "1 value a channel"),
    ((3,), [(3,), (3,), None, None], {}, "input.dim() is 1"),
    ((), [(3,), (3,), None, None], {}, "input.dim() is 0"),
    ((5, 3), [(3,), (3,), None, None], {"training": True, "eps": 0}, "eps is 0"),
    ((5, 3), [(3,), (3,), None, None], {"eps": -1.0}, "eps is -1"),
]


@pytest.mark.parametrize(("shape", "vectors", "options", "words"), BAD)
def test_batch_norm__rejects(shape: tuple[int, ...], vectors: list[Any], options: dict[str, Any], words: str) -> None:
    t = [uniform(1, *shape), *(None if v is None else uniform(2, *v).abs() + 0.5 for v in vectors)]
    given_ = [x for x in t if x is not None]
    assert_rejected(
        lambda: ops.batch_norm(*t, **options),
        ValueError,
        "batch_norm: ",
        words,
        tensors=given_,
        by_torch=lambda: theirs(*t, **options),
    )
    assert ops.batch_norm(uniform(1, 5, 3), None, None, training=True).shape == (5, 3)


def test_batch_norm__statistics_that_cannot_be_written_change_nothing() -> None:
    x, good = uniform(1, 5, 3), torch.ones(3)
    with torch.inference_mode():
        frozen = torch.ones(3)
    for bad, kind in (
        (torch.ones(1).expand(3), UnsupportedError),
        (torch.ones(3, requires_grad=True), UnsupportedError),
        (frozen, ValueError),
    ):
        for pair in ((good, bad), (bad, good)):
            assert_rejected(
                lambda: ops.batch_norm(x, *pair, training=True), kind, "batch_norm: ", "running_", tensors=(x, *pair)
            )


@pytest.mark.parametrize(
    "options", [{"momentum": None}, {"momentum": "a"}, {"eps": None}, {"eps": "a"}, {"training": 1}]
)
def test_batch_norm__rejects_types(options: dict[str, Any]) -> None:
    (name,) = options
    args = {"running_mean": torch.zeros(3), "running_var": torch.ones(3), **options}
    assert_rejected(lambda: ops.batch_norm(uniform(1, 5, 3), **args), TypeError, f"batch_norm: {name}")
    assert_rejected(lambda: ops.batch_norm(None, None, None, training=True), TypeError, "batch_norm: input")


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_batch_norm__rejects_dtypes_and_devices(which: int, dtype: torch.dtype) -> None:
    good = [uniform(1, 5, 3), torch.zeros(3), torch.ones(3), torch.ones(3), torch.zeros(3)]
    for change, kind in ((dtype, TypeError), ("meta", ValueError)):
        bad = [t.to(change) if i == which else t for i, t in enumerate(good)]
        for training in (False, True):
            assert_rejected(
                lambda: ops.batch_norm(*bad, training),
                kind,
                "batch_norm",
                str(change).removeprefix("torch."),
                tensors=bad if kind is TypeError else [],
            )
