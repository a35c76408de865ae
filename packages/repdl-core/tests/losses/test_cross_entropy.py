"""What is particular to cross_entropy: class indices, probabilities, smoothing, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

theirs = torch.nn.functional.cross_entropy


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    n=st.integers(0, 4),
    c=st.integers(1, 4),
    rest=st.lists(st.integers(0, 2), max_size=2),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    weighted=st.booleans(),
    probabilities=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.125, 0.5, 1.0, 1]),
    ignore=st.sampled_from([-100, -1, 0, 7]),
    single=st.booleans(),
)
def test_cross_entropy__agrees_with_torch(
    n: int,
    c: int,
    rest: list[int],
    reduction: str,
    weighted: bool,
    probabilities: bool,
    smoothing: float,
    ignore: int,
    single: bool,
) -> None:
    shape = [c] if single else [n, c, *rest]
    x = uniform(1, *shape, scale=4.0)
    tensors = [x]
    options: dict[str, Any] = {"reduction": reduction, "label_smoothing": smoothing}
    target = torch.zeros(0)
    if probabilities:
        tensors.append(uniform(2, *shape).abs())
    else:
        target = index(2, c, *([] if single else [n, *rest]))
        if not single and target.numel() > 1:
            target.view(-1)[0] = ignore
        options["ignore_index"] = ignore
    weight = uniform(3, c).abs() + 0.5 if weighted else None

    def run(function: Any, *t: torch.Tensor) -> torch.Tensor:
        w = None if weight is None else weight.to(t[0].dtype)
        return function(t[0], t[1] if probabilities else target, w, **options)

    grad = uniform(4, *run(theirs, *tensors).shape)
    actual = derivatives(lambda *t: run(ops.cross_entropy, *t), tensors, grad)
    exact = derivatives(lambda *t: run(theirs, *t), [t.double() for t in tensors], grad.double())
    # log_softmax of numbers within 4 is at most 8 + log(4) < 10 and off by 60 * U (test_softmax.py);
    # a loss adds c products of it, weights and targets below 1.5, and a reduction adds at most
    # 16 of those: 10 * 1.5 * 4 in one loss, n * that in a sum, each with 90 roundings at most.
    size = 60 * (max(n, 1) * 4 if reduction == "sum" else 1)
    for i, (a, e) in enumerate(zip(actual, exact)):
        assert_within(a, e, (60 + 90) * U * size, f"{options} {i}")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy__empty_and_ignored_are_torchs(reduction: str, smoothing: float) -> None:
    options: dict[str, Any] = {"reduction": reduction, "label_smoothing": smoothing}
    for shape, target in (
        ((0, 4), ()),
        ((3, 4), (-100,) * 3),
        ((3, 4, 0), None),
        ((3, 0), (-100,) * 3),
        ((1, 1), (0,)),
    ):
        x = uniform(1, *shape)
        t = torch.zeros(3, 0, dtype=torch.int64) if target is None else torch.tensor(target, dtype=torch.int64)
        ours, expected = ops.cross_entropy(x, t, **options), theirs(x, t, **options)
        assert ours.shape == expected.shape and torch.equal(ours.isnan(), expected.isnan()), shape
        assert (ours.nan_to_num() - expected.nan_to_num()).abs().sum() <= 8 * U, shape


def test_cross_entropy__layout_does_not_change_the_bits() -> None:
    x, target = uniform(1, 6, 5).t(), index(2, 6, 5, 2)[:, 1]
    weight = uniform(3, 12).abs()[::2]
    for options in ({}, {"reduction": "none"}, {"label_smoothing": 0.1}):
        dense = [t.contiguous() for t in (x, target, weight)]
        assert_same_bits(ops.cross_entropy(x, target, weight, **options), ops.cross_entropy(*dense, **options))


def test_cross_entropy__a_row_does_not_depend_on_the_others() -> None:
    x, target = uniform(1, 7, 20), index(2, 20, 7)
    losses = ops.cross_entropy(x, target, reduction="none")
    for i in range(7):
        assert_same_bits(losses[i], ops.cross_entropy(x[i], target[i]))


def test_cross_entropy__forbidden_rewrite_log_of_softmax() -> None:
    assert ops.cross_entropy(torch.tensor([[0.0, 200.0]]), torch.tensor([0])).item() == 200  # else inf


def test_cross_entropy__forbidden_rewrite_mean_as_product() -> None:
    # The mean is one division: with losses whose sum is s, fl(s / n), not fl(s * fl(1 / n)).
    differ = 0
    for n in range(3, 60):
        x, target = uniform(n, n, 5), index(n, 5, n)
        total = ops.cross_entropy(x, target, reduction="sum")
        assert_same_bits(ops.cross_entropy(x, target), total / n)
        differ += int((total / n != total * (torch.tensor(1.0) / n)).item())
    assert differ


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("target", [[0, 1, 4], [0, -1, 2], [-101, 1, 1]])
def test_cross_entropy__rejects_targets_out_of_range(target: list[int], smoothing: float) -> None:
    x, t = uniform(1, 3, 4), torch.tensor(target)
    assert_rejected(
        lambda: ops.cross_entropy(x, t, label_smoothing=smoothing),
        IndexError,
        "target",
        "0 to 3",
        tensors=(x, t),
        by_torch=lambda: theirs(x, t, label_smoothing=smoothing),
    )
    assert ops.cross_entropy(x, t.clamp(0, 3)).shape == ()


@pytest.mark.parametrize(
    ("x", "target", "weight"),
    [
        ((5, 4), (4,), None),
        ((5, 4), (5, 1), None),
        ((5, 4), (), None),
        ((5, 4, 2), (5,), None),
        ((), (), None),
        ((5, 4), (5,), (3,)),
        ((5, 4), (5,), ()),
        ((5, 4), (5,), (1,)),
        ((4,), (4,), None),
    ],
)
def test_cross_entropy__rejects_shapes(
    x: tuple[int, ...], target: tuple[int, ...], weight: tuple[int, ...] | None
) -> None:
    a, t = uniform(1, *x), torch.zeros(target, dtype=torch.int64)
    w = None if weight is None else uniform(2, *weight)
    for smoothing in (0.0, 0.1):
        assert_rejected(
            lambda: ops.cross_entropy(a, t, w, label_smoothing=smoothing),
            ValueError,
            "cross_entropy: ",
            tensors=(a, t),
            by_torch=lambda: theirs(a, t, w, label_smoothing=smoothing),
        )


def test_cross_entropy__rejects_with_probabilities() -> None:
    x, p = uniform(1, 5, 4), uniform(2, 5, 4).abs()
    for t, w in (
        (p[:4], None),
        (p[:, :3], None),
        (p[:, 0], None),
        (p, uniform(3, 1)),
        (p, uniform(3, 3)),
        (p, uniform(3, 1, 4)),
    ):
        assert_rejected(
            lambda: ops.cross_entropy(x, t, w),
            ValueError,
            "cross_entropy: ",
            tensors=(x, t),
            by_torch=lambda: theirs(x, t, w),
        )
    assert_rejected(
        lambda: ops.cross_entropy(x, p, ignore_index=1),
        ValueError,
        "cross_entropy: ignore_index",
        "probabilities",
        by_torch=lambda: theirs(x, p, ignore_index=1),
    )
    assert_rejected(lambda: ops.cross_entropy(x, p.double()), TypeError, ": target", "float64")
    assert_rejected(lambda: ops.cross_entropy(x, p.to("meta")), ValueError, "meta", "cpu")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"reduction": "x"}, ValueError),
        ({"reduction": None}, TypeError),
        ({"label_smoothing": -0.1}, ValueError),
        ({"label_smoothing": 1.1}, ValueError),
        ({"label_smoothing": float("nan")}, ValueError),
        ({"label_smoothing": "a"}, TypeError),
        ({"label_smoothing": None}, TypeError),
        ({"ignore_index": 1.0}, TypeError),
    ],
)
def test_cross_entropy__rejects_options(options: dict[str, Any], kind: type[Exception]) -> None:
    x, t = uniform(1, 3, 4), torch.tensor([0, 1, 0])
    (name,) = options
    assert_rejected(lambda: ops.cross_entropy(x, t, **options), kind, f"cross_entropy: {name}", tensors=(x, t))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy__weight_that_requires_grad(smoothing: float) -> None:
    x, t, weight = uniform(1, 3, 4), torch.tensor([0, 1, 0]), torch.ones(4, requires_grad=True)
    assert_rejected(
        lambda: ops.cross_entropy(x, t, weight, label_smoothing=smoothing),
        UnsupportedError,
        "weight.requires_grad",
        by_torch=lambda: theirs(x, t, weight, label_smoothing=smoothing),
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.uint8])
def test_cross_entropy__rejects_dtypes_and_devices(dtype: torch.dtype) -> None:
    x, t, w = uniform(1, 3, 4), torch.tensor([0, 1, 0]), uniform(2, 4)
    for smoothing in (0.0, 0.1):
        options = {"label_smoothing": smoothing}
        assert_rejected(lambda: ops.cross_entropy(x, t.to(dtype), **options), TypeError, ": target", "int64")
        assert_rejected(lambda: ops.cross_entropy(x.to(torch.complex64), t, **options), TypeError, ": input")
        for moved in ((x.to("meta"), t, w), (x, t.to("meta"), w), (x, t, w.to("meta"))):
            assert_rejected(lambda: ops.cross_entropy(*moved, **options), ValueError, "meta", "cpu")
