"""What is particular to addmm: beta and alpha, broadcasting, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_multilinear, assert_rejected

number = st.one_of(st.sampled_from([0, 1, 2, 0.5]), st.floats(0, 2, width=32))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    m=st.integers(0, 4),
    n=st.integers(0, 4),
    k=st.integers(0, 4),
    beta=number,
    alpha=number,
    keep=st.tuples(st.booleans(), st.booleans()),
    drop=st.integers(0, 2),
)
def test_addmm__agrees_with_torch(
    m: int, n: int, k: int, beta: float, alpha: float, keep: tuple[bool, bool], drop: int
) -> None:
    added = uniform(1, *[size if kept else 1 for size, kept in zip((m, n), keep)][drop:])
    tensors = [added, uniform(2, m, k), uniform(3, k, n)]
    if beta == 0:  # nothing is added: no gradient
        tensors = tensors[1:]
    first = [added] * (beta == 0)
    # beta and alpha are rounded to float32 (here they are exact); 4 roundings beside the sums'.
    assert_multilinear(
        lambda *t: ops.addmm(*first, *t, beta=beta, alpha=alpha),
        lambda *t: torch.addmm(*[f.double() for f in first], *t, beta=beta, alpha=alpha),
        tensors,
        m * n + k + m + n + 4,
        uniform(4, m, n),
        second=alpha != 0,
    )


def test_addmm__beta_0_does_not_read_input() -> None:
    a, b = uniform(1, 2, 3), uniform(2, 3, 4)
    assert_same_bits(ops.addmm(torch.full((2, 4), torch.nan), a, b, beta=0), ops.mm(a, b))


def test_addmm__types_of_numbers() -> None:
    tensors = uniform(1, 2, 4), uniform(2, 2, 3), uniform(3, 3, 4)
    for two in (2, 2.0, torch.tensor(2.0), torch.tensor(2)):
        assert_same_bits(ops.addmm(*tensors, beta=two, alpha=two), ops.addmm(*tensors, beta=2.0, alpha=2.0))


def test_addmm__layout_does_not_change_the_bits() -> None:
    x, a, b = uniform(1, 4, 2).t(), uniform(2, 3, 2).t(), uniform(3, 1, 4).expand(3, 4)
    dense = [t.contiguous() for t in (x, a, b)]
    assert_same_bits(ops.addmm(x, a, b, beta=0.5, alpha=3), ops.addmm(*dense, beta=0.5, alpha=3))


def test_addmm__forbidden_rewrite_input_as_start_of_the_chain() -> None:
    assert ops.addmm(torch.tensor([[2.0**24]]), torch.ones(1, 2), torch.ones(2, 1)).item() == 2.0**24 + 2


def test_addmm__forbidden_rewrite_alpha_into_an_operand() -> None:
    # alpha * (a @ b): the product underflows first. (alpha * a) @ b would not.
    a, b = torch.tensor([[2.0**-100]]), torch.tensor([[2.0**-60]])
    assert ops.addmm(torch.zeros(1), a, b, alpha=2.0**100).item() == 0


def test_addmm__forbidden_rewrite_fused_scaling() -> None:
    x = torch.tensor([[1 + 2.0**-12]])
    assert ops.addmm(x, torch.tensor([[-(1 + 2.0**-11)]]), torch.ones(1, 1), beta=1 + 2.0**-12).item() == 0


@pytest.mark.parametrize(
    ("x", "a", "b"),
    [
        ((2, 4), (2, 3), (4, 4)),
        ((3, 4), (2, 3), (3, 4)),
        ((2,), (2, 3), (3, 4)),
        ((1, 2, 4), (2, 3), (3, 4)),
        ((2, 4), (3,), (3, 4)),
        ((2, 4), (1, 2, 3), (1, 3, 4)),
        ((2, 4), (2, 3), ()),
        ((0, 4), (2, 3), (3, 4)),
    ],
)
def test_addmm__rejects_shapes(x: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> None:
    t = uniform(1, *x), uniform(2, *a), uniform(3, *b)
    for beta in (1, 0.5):
        assert_rejected(
            lambda: ops.addmm(*t, beta=beta), ValueError, "m", tensors=t, by_torch=lambda: torch.addmm(*t, beta=beta)
        )


@pytest.mark.parametrize("bad", ["a", None, 1j, torch.ones(2)])
def test_addmm__rejects_types(bad: Any) -> None:
    t = uniform(1, 2, 4), uniform(2, 2, 3), uniform(3, 3, 4)
    for option in ("alpha", "beta"):
        assert_rejected(
            lambda: ops.addmm(*t, **{option: bad}),
            TypeError,
            f"addmm: {option}",
            tensors=t,
            by_torch=lambda: torch.addmm(*t, **{option: bad}),
        )
    assert_rejected(lambda: ops.addmm(1.0, *t[1:]), TypeError, "addmm: input")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("beta", [0, 1])
def test_addmm__rejects_dtypes_and_devices(dtype: torch.dtype, which: int, beta: int) -> None:
    good = [uniform(1, 2, 4), uniform(2, 2, 3), uniform(3, 3, 4)]
    bad = [t.to(dtype) if i == which else t for i, t in enumerate(good)]
    assert_rejected(
        lambda: ops.addmm(*bad, beta=beta), TypeError, "addmm: ", str(dtype).removeprefix("torch."), tensors=bad
    )
    moved = [t.to("meta") if i == which else t for i, t in enumerate(good)]
    assert_rejected(lambda: ops.addmm(*moved, beta=beta), ValueError, "addmm: ", "meta", "cpu")
