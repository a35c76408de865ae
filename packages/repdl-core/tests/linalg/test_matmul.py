"""What is particular to matmul: mm, bmm, matmul against torch, errors, layouts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_multilinear, assert_rejected

FEW = settings(max_examples=25, deadline=None, derandomize=True)
SIZE = st.integers(1, 6)


@FEW
@given(m=SIZE, n=SIZE, k=st.sampled_from([1, 2, 3, 9, 257]), transA=st.booleans(), transB=st.booleans())
def test_mm__agrees_with_torch(m: int, n: int, k: int, transA: bool, transB: bool) -> None:
    a, b = uniform(1, *((k, m) if transA else (m, k))), uniform(2, *((n, k) if transB else (k, n)))
    assert_multilinear(
        lambda x, y: ops.mm(x, y, transA, transB),
        lambda x, y: (x.t() if transA else x) @ (y.t() if transB else y),
        (a, b),
        k + m + n,
        uniform(3, m, n),
    )


SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3, 4)),
    ((1, 2, 3), (5, 3, 2)),
    ((5, 2, 3), (1, 3, 2)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((2, 3), (4, 3, 2)),
    ((1,), (1,)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul__broadcasts_as_torch(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = uniform(1, *left), uniform(2, *right)
    cotangent = uniform(3, *torch.matmul(a, b).shape)
    assert_multilinear(ops.matmul, torch.matmul, (a, b), a.numel() + b.numel() + 9, cotangent)


EMPTY = [
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2, 3), (3, 2)),
    ((0, 2, 3), (3,)),
    ((0,), (0,)),
    ((5, 2, 0), (0, 4)),
    ((3, 0), (0,)),
]


@pytest.mark.parametrize(("left", "right"), EMPTY)
def test_matmul__empty(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = uniform(1, *left), uniform(2, *right)
    assert_multilinear(ops.matmul, torch.matmul, (a, b), 1, torch.ones(torch.matmul(a, b).shape))


def test_bmm__agrees_with_torch() -> None:
    assert_multilinear(ops.bmm, torch.bmm, (uniform(1, 3, 2, 5), uniform(2, 3, 5, 4)), 14, uniform(3, 3, 2, 4))


LAYOUTS = {
    "transposed": lambda: uniform(1, 4, 4).t(),
    "expanded": lambda: uniform(1, 1, 4).expand(4, 4),
    "all one element": lambda: uniform(1).expand(4, 4),
    "every other": lambda: uniform(1, 8, 8)[::2, 1::2],
    "overlapping": lambda: uniform(1, 8).as_strided((4, 4), (1, 1)),
    "offset": lambda: uniform(1, 5, 4)[1:],
    "negative bit": lambda: torch._neg_view(uniform(1, 4, 4)),
    "parameter": lambda: torch.nn.Parameter(uniform(1, 4, 4)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mm__layout_does_not_change_the_bits(layout: str) -> None:
    a, b = LAYOUTS[layout](), uniform(2, 4, 4)
    dense = a.detach().clone(memory_format=torch.contiguous_format).resolve_neg()
    for left, right in ((a, b), (b, a), (a, a)):
        plain = [dense if t is a else t for t in (left, right)]
        assert_same_bits(ops.mm(left, right), ops.mm(*plain), layout)
    x, y = (t.detach().requires_grad_() for t in (a, dense))
    for t in (x, y):
        ops.mm(t, b).backward(uniform(3, 4, 4))
    assert_same_bits(x.grad, y.grad, f"gradient of {layout}")


def test_mm__gradient_that_is_expanded() -> None:
    a = uniform(1, 3, 5).requires_grad_()
    ops.mm(a, uniform(2, 5, 4)).sum().backward()  # torch's sum gives an expanded gradient
    dense = torch.autograd.grad(ops.mm(a, uniform(2, 5, 4)), a, torch.ones(3, 4))[0]
    assert_same_bits(a.grad, dense)


def test_mm__a_row_does_not_depend_on_the_others() -> None:
    a, b = uniform(1, 33, 300), uniform(2, 300, 9)
    for rows in (slice(0, 1), slice(5, 6), slice(3, 20)):
        assert_same_bits(ops.mm(a[rows], b), ops.mm(a, b)[rows])


def test_mm__forbidden_rewrite_multiply_then_add() -> None:
    # (1 + 2**-12)**2 - (1 + 2**-11) is 2**-24 with a fused multiply-add, 0 without.
    a, b = torch.tensor([[-1.0, 1 + 2.0**-12]]), torch.tensor([[1 + 2.0**-11], [1 + 2.0**-12]])
    assert ops.mm(a, b).item() == 2.0**-24


def test_mm__forbidden_rewrite_padding_with_zeros() -> None:
    # The product underflows to -0; one more term, 0 * 0, would make it +0.
    product = ops.mm(torch.tensor([[2.0**-75]]), torch.tensor([[-(2.0**-76)]]))
    assert product.item() == 0 and torch.signbit(product).item()


def test_mm__forbidden_rewrite_skipping_zeros() -> None:
    assert ops.mm(torch.zeros(1, 1), torch.tensor([[torch.inf]])).isnan().item()


def test_mm__forbidden_rewrite_other_order() -> None:
    # 2**24 + 1 + 1 is 2**24 in ascending order; the other end first gives 2**24 + 2.
    ones, b = torch.ones(1, 3), torch.tensor([[2.0**24], [1.0], [1.0]])
    assert ops.mm(ones, b).item() == 2.0**24
    assert ops.mm(ones, b.flip(0)).item() == 2.0**24 + 2


BAD_SHAPES = [
    ("mm", (2, 3), (4, 3)),
    ("mm", (3,), (3, 2)),
    ("mm", (1, 2, 3), (3, 2)),
    ("mm", (), (3, 2)),
    ("bmm", (5, 2, 3), (4, 3, 2)),
    ("bmm", (5, 2, 3), (5, 2, 3)),
    ("bmm", (2, 3), (3, 2)),
    ("bmm", (1, 2, 3), (5, 3, 2)),
    ("matmul", (3,), (4,)),
    ("matmul", (), (3,)),
    ("matmul", (2, 3), ()),
    ("matmul", (5, 2, 3), (4, 3, 2)),
    ("matmul", (2, 3, 4), (3,)),
    ("matmul", (2, 3, 4), (3, 4)),
    ("matmul", (0,), (1,)),
]


@pytest.mark.parametrize(("op", "left", "right"), BAD_SHAPES)
def test_matmul__rejects_shapes(op: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = uniform(1, *left), uniform(2, *right)
    assert_rejected(
        lambda: getattr(ops, op)(a, b), ValueError, "m", tensors=(a, b), by_torch=lambda: getattr(torch, op)(a, b)
    )


def test_mm__message_has_op_actual_and_expected() -> None:
    a, b = uniform(1, 2, 3), uniform(2, 4, 5)
    assert_rejected(
        lambda: ops.mm(a, b), ValueError, "matmul: mat2.shape[0] is 4", "3 (= input.shape[1])", tensors=(a, b)
    )
    assert ops.mm(a, b[:3]).shape == (2, 5)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
@pytest.mark.parametrize("op", ["mm", "matmul"])
def test_matmul__rejects_dtype(op: str, dtype: torch.dtype) -> None:
    a, b = torch.ones(2, 2), torch.ones(2, 2, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    for pair in ((a, b), (b, a), *(() if dtype.is_floating_point else ((b, b),))):
        assert_rejected(lambda: getattr(ops, op)(*pair), TypeError, "matmul", name, "float32", tensors=pair)


def test_matmul__rejects_devices() -> None:
    a, b = torch.ones(2, 2), torch.ones(2, 2, device="meta")
    for pair in ((a, b), (b, a)):
        assert_rejected(lambda: ops.mm(*pair), ValueError, "matmul", "cpu", "meta")


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr", "to_mkldnn"])
def test_matmul__rejects_layouts_without_strides(convert: str) -> None:
    a, b = getattr(torch.ones(2, 2), convert)(), torch.ones(2, 2)
    for pair in ((a, b), (b, a)):
        assert_rejected(lambda: ops.mm(*pair), UnsupportedError, "matmul", "layout", "strided")


@pytest.mark.parametrize("bad", [None, 2.0, [[1.0]], "a"])
def test_matmul__rejects_what_is_no_tensor(bad: object) -> None:
    a = torch.ones(2, 2)
    for op in ("mm", "bmm", "matmul"):
        for pair in ((a, bad), (bad, a)):
            assert_rejected(
                lambda: getattr(ops, op)(*pair), TypeError, op, "tensor", by_torch=lambda: getattr(torch, op)(*pair)
            )


def test_mm__forward_mode_raises() -> None:
    # Silently, the derivative would be 0.
    a = torch.ones(2, 2)
    assert_rejected(
        lambda: torch.func.jvp(lambda x: ops.mm(x, a), (a,), (a,)), UnsupportedError, "matmul", "forward-mode"
    )


def test_matmul__meta_gives_the_shape_of_what_no_memory_holds() -> None:
    a, b = torch.empty(2**20, 2**12, device="meta"), torch.empty(2**12, 2**20, device="meta")
    assert ops.mm(a, b).shape == (2**20, 2**20)
