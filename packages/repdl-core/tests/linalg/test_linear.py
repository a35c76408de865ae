"""What is particular to linear: torch's semantics and derivatives, 1 output, errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_multilinear, assert_rejected

FEW = settings(max_examples=25, deadline=None, derandomize=True)
theirs = torch.nn.functional.linear


@FEW
@given(
    lead=st.lists(st.integers(0, 4), max_size=3),
    k=st.sampled_from([1, 2, 9, 300]),
    n=st.sampled_from([1, 2, 7]),
    bias=st.booleans(),
)
def test_linear__agrees_with_torch(lead: list[int], k: int, n: int, bias: bool) -> None:
    tensors = [uniform(1, *lead, k), uniform(2, n, k), *([uniform(3, n)] if bias else [])]
    rows = max(tensors[0].numel() // k, 1)
    assert_multilinear(ops.linear, theirs, tensors, k + n + rows + 2, uniform(4, *lead, n))


@pytest.mark.parametrize("lead", [(), (1,), (5,), (0,), (2, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_linear__one_output(lead: tuple[int, ...], bias: bool) -> None:
    tensors = [uniform(1, *lead, 3), uniform(2, 1, 3), *([uniform(3, 1)] if bias else [])]
    assert_multilinear(ops.linear, theirs, tensors, 12, uniform(4, *lead, 1))


@pytest.mark.parametrize("lead", [(), (1,), (5,), (0,), (2, 3)])
def test_linear__weight_without_outputs_dimension(lead: tuple[int, ...]) -> None:
    assert_multilinear(ops.linear, theirs, [uniform(1, *lead, 3), uniform(2, 3)], 12, uniform(4, *lead))


@pytest.mark.parametrize(("rows", "k", "n"), [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)])
def test_linear__empty(rows: int, k: int, n: int) -> None:
    tensors = [uniform(1, rows, k), uniform(2, n, k), uniform(3, n)]
    assert_multilinear(ops.linear, theirs, tensors, 9, uniform(4, rows, n))


def test_linear__layout_does_not_change_the_bits() -> None:
    x, w, b = uniform(1, 6, 4).t(), uniform(2, 1, 6).expand(3, 6), uniform(3).expand(3)
    assert_same_bits(ops.linear(x, w, b), ops.linear(x.contiguous(), w.contiguous(), b.contiguous()))


def test_linear__only_the_gradients_asked_for() -> None:
    for wanted in range(3):
        tensors = [uniform(1, 2, 3), uniform(2, 4, 3), uniform(3, 4)]
        tensors[wanted].requires_grad_()
        ops.linear(*tensors).sum().backward()
        assert [t.grad is not None for t in tensors] == [i == wanted for i in range(3)]
    with torch.no_grad():
        assert not ops.linear(*tensors).requires_grad


def test_linear__forbidden_rewrite_bias_as_start_of_the_chain() -> None:
    # 2**24 + (1 + 1) is 2**24 + 2; a chain that starts from the bias stays at 2**24.
    assert ops.linear(torch.ones(1, 2), torch.ones(1, 2), torch.tensor([2.0**24])).item() == 2.0**24 + 2


def test_linear__forbidden_rewrite_bias_fused_into_the_last_product() -> None:
    # The product rounds to 1 + 2**-11 before the bias is added.
    x = torch.tensor([[1 + 2.0**-12]])
    assert ops.linear(x, x, torch.tensor([-(1 + 2.0**-11)])).item() == 0


@pytest.mark.parametrize(
    ("x", "w", "b"),
    [
        ((2, 3), (4, 2), None),
        ((), (4, 3), None),
        ((2, 3), (1, 4, 3), None),
        ((2, 3), (), None),
        ((2, 3), (4, 3), (5,)),
        ((2, 3), (4, 3), (3,)),
        ((2, 3), (4, 3), (2, 2, 4)),
        ((2, 3), (4,), None),
        ((0, 3), (4, 2), None),
    ],
)
def test_linear__rejects_shapes(x: tuple[int, ...], w: tuple[int, ...], b: tuple[int, ...] | None) -> None:
    tensors = [uniform(1, *x), uniform(2, *w), *([] if b is None else [uniform(3, *b)])]
    assert_rejected(
        lambda: ops.linear(*tensors), ValueError, "linear: ", tensors=tensors, by_torch=lambda: theirs(*tensors)
    )


@pytest.mark.parametrize("bias", [(), (1,), (1, 4), (2, 4)])
def test_linear__rejects_a_bias_that_torch_would_broadcast(bias: tuple[int, ...]) -> None:
    # torch's documentation has (out_features) only.
    tensors = [uniform(1, 2, 3), uniform(2, 4, 3), uniform(3, *bias)]
    assert_rejected(lambda: ops.linear(*tensors), ValueError, "linear: bias", tensors=tensors)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("which", range(3))
def test_linear__rejects_dtypes_and_devices(dtype: torch.dtype, which: int) -> None:
    good = [uniform(1, 2, 3), uniform(2, 4, 3), uniform(3, 4)]
    bad = [t.to(dtype) if i == which else t for i, t in enumerate(good)]
    name = str(dtype).removeprefix("torch.")
    assert_rejected(lambda: ops.linear(*bad), TypeError, "linear", name, "float32", tensors=bad)
    moved = [t.to("meta") if i == which else t for i, t in enumerate(good)]
    assert_rejected(lambda: ops.linear(*moved), ValueError, "linear", "meta", "cpu")
    assert ops.linear(*good).shape == (2, 4)


@pytest.mark.parametrize("bad", [None, 1.0, "a"])
def test_linear__rejects_what_is_no_tensor(bad: object) -> None:
    assert_rejected(lambda: ops.linear(bad, uniform(1, 2, 3)), TypeError, "linear: input")
    assert_rejected(lambda: ops.linear(uniform(1, 2, 3), bad), TypeError, "linear: weight")
    if bad is not None:
        assert_rejected(lambda: ops.linear(uniform(1, 2, 3), uniform(1, 2, 3), bad), TypeError, "linear: bias")
