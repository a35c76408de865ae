"""What is particular to nll_loss: reductions, weights, ignored targets, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import TINY, assert_rejected, assert_within, derivatives, gamma

theirs = torch.nn.functional.nll_loss
REDUCTION = st.sampled_from(["mean", "sum", "none"])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.integers(0, 5),
    c=st.integers(1, 4),
    rest=st.lists(st.integers(0, 3), max_size=2),
    reduction=REDUCTION,
    weighted=st.booleans(),
    ignore=st.sampled_from([-100, -1, 0, 1, 7]),
    single=st.booleans(),
)
def test_nll_loss__agrees_with_torch(
    n: int, c: int, rest: list[int], reduction: str, weighted: bool, ignore: int, single: bool
) -> None:
    shape = [c] if single else [n, c, *rest]
    x, target = -uniform(1, *shape).abs(), index(2, c, *([] if single else [n, *rest]))
    if not single and target.numel() > 1:
        target.view(-1)[0] = ignore
    options = {"reduction": reduction, "ignore_index": ignore}
    weight = uniform(3, c).abs() + 0.5 if weighted else None
    exact_weight = None if weight is None else weight.double()
    grad = uniform(4, *theirs(x, target, weight, **options).shape)
    actual = derivatives(lambda t: ops.nll_loss(t, target, weight, **options), [x], grad)
    exact = derivatives(lambda t: theirs(t, target, exact_weight, **options), [x.double()], grad.double())
    # A loss is a product; a sum of at most 45 of them, all of one sign; a quotient by such a sum.
    for i, (a, e) in enumerate(zip(actual, exact)):
        assert_within(a, e, gamma(2 * max(target.numel(), 1) + 5) * e.abs().nan_to_num() + TINY, f"{options} {i}")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss__all_ignored_and_empty(reduction: str) -> None:
    for x, target in (
        (uniform(1, 3, 4), torch.full((3,), -100)),
        (uniform(1, 0, 4), torch.zeros(0, dtype=torch.int64)),
    ):
        ours, expected = ops.nll_loss(x, target, reduction=reduction), theirs(x, target, reduction=reduction)
        assert torch.equal(ours.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_nll_loss__layout_does_not_change_the_bits() -> None:
    x, target = uniform(1, 6, 5).t(), index(2, 6, 5, 2)[:, 1]
    weight = uniform(3, 1).expand(6)
    for reduction in ("mean", "none"):
        dense = [t.contiguous() for t in (x, target, weight)]
        assert_same_bits(
            ops.nll_loss(x, target, weight, reduction=reduction), ops.nll_loss(*dense, reduction=reduction)
        )


def test_nll_loss__forbidden_rewrite_weight_after_the_sum() -> None:
    # Each product is rounded before the sum: two of 2**-75 * 2**-75 are 0.
    x, weight = torch.full((2, 1), -(2.0**-75)), torch.tensor([2.0**-76])
    assert ops.nll_loss(x, torch.zeros(2, dtype=torch.int64), weight, reduction="sum").item() == 0


def test_nll_loss__forbidden_rewrite_zero_weight_skips_the_element() -> None:
    x = torch.tensor([[float("inf")], [1.0]])
    assert ops.nll_loss(x, torch.zeros(2, dtype=torch.int64), torch.zeros(1), reduction="sum").isnan()


BAD_TARGETS = [[0, 1, 4], [0, -1, 2], [-101, 1, 1], [0, 2**40, 1]]


@pytest.mark.parametrize("target", BAD_TARGETS)
@pytest.mark.parametrize("ignore", [-100, 3, 5])
def test_nll_loss__rejects_targets_out_of_range(target: list[int], ignore: int) -> None:
    x, t = uniform(1, 3, 4), torch.tensor(target)
    wrong = next(v for v in target if not 0 <= v < 4)
    assert_rejected(
        lambda: ops.nll_loss(x, t, ignore_index=ignore),
        IndexError,
        "nll_loss: target",
        f"is {wrong}",
        "0 to 3",
        tensors=(x, t),
        by_torch=lambda: theirs(x, t, ignore_index=ignore),
    )
    assert ops.nll_loss(x, t.clamp(0, 3)).shape == ()
    assert ops.nll_loss(x[:, :], torch.where((t < 0) | (t > 3), 7, t), ignore_index=7).shape == ()


@pytest.mark.parametrize(
    ("x", "target", "weight"),
    [
        ((5, 4), (4,), None),
        ((5, 4), (5, 1), None),
        ((5, 4), (), None),
        ((5, 4, 2), (5,), None),
        ((5, 4, 2), (5, 3), None),
        ((), (), None),
        ((5, 4), (5,), (3,)),
        ((5, 4), (5,), ()),
        ((5, 4), (5,), (1,)),
        ((5, 4), (5,), (1, 4)),
        ((4,), (4,), None),
    ],
)
def test_nll_loss__rejects_shapes(x: tuple[int, ...], target: tuple[int, ...], weight: tuple[int, ...] | None) -> None:
    a, t = uniform(1, *x), torch.zeros(target, dtype=torch.int64)
    w = None if weight is None else uniform(2, *weight)
    assert_rejected(
        lambda: ops.nll_loss(a, t, w), ValueError, "nll_loss: ", tensors=(a, t), by_torch=lambda: theirs(a, t, w)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.uint8, torch.bool])
def test_nll_loss__rejects_dtypes_and_devices(dtype: torch.dtype) -> None:
    x, t, w = uniform(1, 3, 4), torch.tensor([0, 1, 0]), uniform(2, 4)
    assert_rejected(lambda: ops.nll_loss(x, t.to(dtype)), TypeError, "nll_loss: target", "int64", tensors=(x,))
    assert_rejected(lambda: ops.nll_loss(x.long(), t), TypeError, "nll_loss: input", "int64")
    assert_rejected(lambda: ops.nll_loss(x, t, w.half()), TypeError, "nll_loss: weight", "float16")
    for moved in ((x.to("meta"), t, w), (x, t.to("meta"), w), (x, t, w.to("meta"))):
        assert_rejected(lambda: ops.nll_loss(*moved), ValueError, "nll_loss", "meta", "cpu")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"reduction": "x"}, ValueError),
        ({"reduction": None}, TypeError),
        ({"reduction": 1}, TypeError),
        ({"ignore_index": None}, TypeError),
        ({"ignore_index": 2.0}, TypeError),
        ({"ignore_index": True}, TypeError),
    ],
)
def test_nll_loss__rejects_options(options: dict[str, Any], kind: type[Exception]) -> None:
    x, t = uniform(1, 3, 4), torch.tensor([0, 1, 0])
    (name,) = options
    assert_rejected(
        lambda: ops.nll_loss(x, t, **options),
        kind,
        f"nll_loss: {name}",
        tensors=(x, t),
        by_torch=lambda: theirs(x, t, **options),
    )


def test_nll_loss__unsupported() -> None:
    x, t = uniform(1, 3, 4), torch.tensor([0, 1, 0])
    for options in ({"size_average": True}, {"reduce": False}):
        assert_rejected(lambda: ops.nll_loss(x, t, **options), UnsupportedError, "nll_loss", "reduction=")
    weight = torch.ones(4, requires_grad=True)
    assert_rejected(
        lambda: ops.nll_loss(x, t, weight),
        UnsupportedError,
        "nll_loss: weight.requires_grad",
        by_torch=lambda: theirs(x, t, weight),
    )
    with torch.no_grad():
        assert ops.nll_loss(x, t, weight).shape == ()
