"""What is particular to the elementwise ops: exact results, numbers, derivatives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.errors import ShapeError, UnsupportedError
from repdl.registry import OPS
from repdl.testing import assert_same_bits, uniform
from repdl.testing.cases.pointwise.elementwise import EXACT, UNARY
from repdl.testing.inputs import SPECIAL
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

ROUNDED_ONCE = ["add", "sub", "mul", "div"]
BINARY = [*ROUNDED_ONCE, "maximum", "minimum"]
FEW = settings(max_examples=30, deadline=None, derandomize=True)
NAN, INF = float("nan"), float("inf")

shapes = st.lists(st.integers(0, 3), max_size=3)
floats = st.floats(width=32)


def rounded(x: torch.Tensor) -> torch.Tensor:
    """float64 to float32. For + - * / and sqrt of float32 numbers the two roundings give
    what one would (Figueroa, When is double rounding innocuous, 1995). NaN is canonical."""
    return torch.where(x.isnan(), torch.tensor(NAN), x.float())


@pytest.mark.parametrize("op", ROUNDED_ONCE)
@FEW
@given(a=st.lists(floats, min_size=1, max_size=8), b=st.lists(floats, min_size=1, max_size=8))
def test_binary__rounds_once(op: str, a: list[float], b: list[float]) -> None:
    x, y = torch.tensor(a)[:, None], torch.tensor(b)
    assert_same_bits(getattr(ops, op)(x, y), rounded(getattr(torch, op)(x.double(), y.double())))


@pytest.mark.parametrize("op", ["abs", "neg", "reciprocal", "relu", "sign", "sqrt", "square"])
@FEW
@given(a=st.lists(floats, max_size=20))
def test_unary__rounds_once(op: str, a: list[float]) -> None:
    x = torch.tensor(a)
    assert_same_bits(getattr(ops, op)(x) + 0.0, rounded(getattr(torch, op)(x.double())) + 0.0)


@pytest.mark.parametrize("op", EXACT)
@FEW
@given(a=st.lists(floats, max_size=20))
def test_exact_functions__within_half_an_ulp(op: str, a: list[float]) -> None:
    # Half an ulp of float32 is U of a normal result and 2**-150 of a subnormal; torch's double
    # function has an error of a few 2**-53.
    x = torch.tensor(a)
    exact = getattr(torch, op)(x.double())
    exact = torch.where(exact.abs() > 3.4028235677973366e38, exact * INF, exact)
    assert_within(getattr(ops, op)(x), exact, exact.abs() * U * (1 + 2.0**-20) + 2.0**-150, op)


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremum__selects_as_torch(op: str) -> None:
    x = torch.tensor(SPECIAL + [NAN, 2.0])
    a, b = x[:, None], x[None, :]
    assert_same_bits(getattr(ops, op)(a, b) + 0.0, rounded(getattr(torch, op)(a, b).double()) + 0.0)


@pytest.mark.parametrize("op", [*BINARY, "atan2"])
@FEW
@given(shape=shapes, ones=st.lists(st.booleans(), min_size=3, max_size=3), drop=st.integers(0, 3))
def test_binary__broadcasts_and_its_gradients(op: str, shape: list[int], ones: list[bool], drop: int) -> None:
    a = uniform(1, *shape)
    b = uniform(2, *[1 if one else n for n, one in zip(shape, ones)][drop:]).abs() + 0.5  # away from 0
    for left, right in ((a, b), (b, a)):
        cotangent = uniform(3, *torch.broadcast_shapes(a.shape, b.shape))
        if op == "div" and right is a:
            continue
        actual = derivatives(getattr(ops, op), (left, right), cotangent)
        exact = derivatives(getattr(torch, op), (left.double(), right.double()), cotangent.double())
        # Terms up to 1 / 0.5**2 = 4 in magnitude; 4 roundings each, and a sum over all.
        n = cotangent.numel()
        for i, (x, y) in enumerate(zip(actual, exact)):
            assert_within(x, y, (n + 4) * U * 4 * max(n, 1), f"{op} {i}")


UNARY_RANGE = {
    **dict.fromkeys(("log", "log10", "log2", "reciprocal", "rsqrt", "sqrt"), (0.5, 2.0)),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), (-0.5, 0.5)),
    "acosh": (1.5, 2.0),
    "log1p": (-0.5, 1.0),
}


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0, 3)])
def test_unary__derivatives(op: str, shape: tuple[int, ...]) -> None:
    low, high = UNARY_RANGE.get(op, (-1.0, 1.0))
    x = (uniform(1, *shape) + 1) * ((high - low) / 2) + low
    grad, tangent = uniform(2, *shape), uniform(3, *shape)
    second = [] if op == "sign" else [tangent]
    actual = derivatives(getattr(ops, op), [x], grad, second)
    exact = derivatives(getattr(torch, op), [x.double()], grad.double(), [t.double() for t in second])
    for i, (a, e) in enumerate(zip(actual, exact)):
        # Values and derivatives up to 2 / 0.5**3 = 16 in magnitude; at most 8 roundings.
        assert_within(a, e, 8 * U * 16, f"{op} derivative {i}")


@pytest.mark.parametrize("op", UNARY)
def test_unary__gradient_at_special_values_is_torchs(op: str) -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF])
    one, other = (derivatives(f, [x], torch.ones(7))[1] for f in (getattr(ops, op), getattr(torch, op)))
    assert torch.equal(one.isnan(), other.isnan())
    one, other = (g.nan_to_num(7.0, 8.0, 9.0) for g in (one, other))
    if op in ("asinh", "cos", "cosh", "erf", "erfc", "sin", "sinh", "tanh"):
        # torch's function of 1 may be an ulp off (U between 1/2 and 1, 2 U up to 2), times at most 1.52 (tanh:
        # 1 - y * y with y = 0.76); then at most two roundings of U / 2 each, on either side.
        assert_within(one, other.double(), (1.52 + 1 + 0.76 + 1) * U, op)
    elif op == "tan":
        # An ulp of y = 1.56 is 2 U, times 2 y; y * y and 1 + y * y, of 2 to 4, have roundings of 2 U on either side.
        assert_within(one, other.double(), (3.12 * 2 + 8) * U, op)
    else:
        assert torch.equal(one, other)


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremum__gradient_of_ties_and_nan_is_torchs(op: str) -> None:
    a = torch.tensor([1.0, 2.0, 3.0, NAN, 1.0, NAN, 0.0, INF])
    b = torch.tensor([2.0, 2.0, 1.0, 1.0, NAN, NAN, -0.0, INF])
    one, other = (derivatives(f, [a, b], torch.ones(8))[1:] for f in (getattr(ops, op), getattr(torch, op)))
    for x, y in zip(one, other):
        assert torch.equal(x, y)


def test_atan2__values_and_gradients_as_torchs() -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0**-140, INF, -INF, NAN])
    y, x = (t.contiguous() for t in torch.broadcast_tensors(special.unsqueeze(1), special))
    ours, theirs = (derivatives(f, (y, x), torch.ones(8, 8)) for f in (ops.atan2, torch.atan2))
    for one, other in zip(ours, theirs):
        assert torch.equal(one.isnan(), other.isnan())
        assert_within(one.nan_to_num(7, 8, 9), other.nan_to_num(7, 8, 9).double(), 4 * U, "atan2")
    assert torch.equal(ours[0].signbit() & ~ours[0].isnan(), theirs[0].signbit() & ~theirs[0].isnan())
    whole = torch.tensor([1, -2])
    assert_same_bits(ops.atan2(whole, torch.tensor([3, 4])), ops.atan2(whole.float(), torch.tensor([3.0, 4.0])))
    assert_rejected(lambda: ops.atan2(torch.ones(2), torch.ones(3)), ShapeError, "shapes that broadcast")


@pytest.mark.parametrize("op", ROUNDED_ONCE)
@pytest.mark.parametrize(
    "number", [2, 2.5, -3, 0, 0.1, 1e300, -1e300, INF, NAN, np.float32(0.1), np.float64(0.1), np.int64(3)]
)
def test_binary__number_is_rounded_to_float32(op: str, number: Any) -> None:
    x = uniform(1, 3, 4)
    as_tensor = torch.tensor(float(number), dtype=torch.float64).float()
    assert_same_bits(getattr(ops, op)(x, number), getattr(ops, op)(x, as_tensor))
    assert_same_bits(getattr(ops, op)(number, x), getattr(ops, op)(as_tensor, x))


def test_binary__forbidden_rewrite_integer_by_way_of_a_double() -> None:
    # 2**60 + 2**36 + 1 rounds up to 2**60 + 2**37; as a double it is a tie, which rounds down.
    assert ops.mul(torch.ones(1), 2**60 + 2**36 + 1).item() == 2**60 + 2**37
    assert ops.add(torch.zeros(1), torch.ones(1), alpha=2**60 + 2**36 + 1).item() == 2**60 + 2**37


@pytest.mark.parametrize("op", ["add", "sub"])
@pytest.mark.parametrize("alpha", [2, 0.1, -1, 0, INF, NAN, torch.tensor(2.0), np.float32(0.1)])
def test_add__alpha(op: str, alpha: Any) -> None:
    x, y = uniform(1, 3), uniform(2, 3)
    product = y.double() * torch.tensor(float(alpha)).float().double()  # exact
    expected = getattr(torch, op)(x.double(), product)  # these three are far from ties of float32
    assert_same_bits(getattr(ops, op)(x, y, alpha=alpha), rounded(expected))


def test_add__forbidden_rewrite_alpha_in_two_roundings() -> None:
    x = torch.tensor([-(1 + 2.0**-11)])
    y = torch.tensor([1 + 2.0**-12])
    assert ops.add(x, y, alpha=1 + 2.0**-12).item() == 2.0**-24  # 0 if the product is rounded


def test_div__forbidden_rewrite_product_with_the_reciprocal() -> None:
    x, y = torch.arange(1.0, 50.0)[:, None], torch.arange(1.0, 50.0)
    assert (x * (1 / y) != x / y).any()
    assert_same_bits(ops.div(x, y), rounded(x.double() / y.double()))


def test_mul__forbidden_rewrite_zero_or_one() -> None:
    x = torch.tensor([INF, NAN, -1.0])
    assert ops.mul(x, 0)[:2].isnan().all() and torch.signbit(ops.mul(x, 0)[2])
    assert torch.signbit(ops.add(torch.tensor(-0.0), torch.tensor(-0.0)))  # x + 0 is not x
    assert not torch.signbit(ops.add(torch.tensor(-0.0), 0))


def test_subnormals__forbidden_rewrite_flush_to_zero() -> None:
    x = torch.tensor([2.0**-149])
    assert ops.mul(x, 1.0).item() == 2.0**-149
    assert ops.sub(torch.tensor([2.0**-126]), x).item() == 2.0**-126 - 2.0**-149
    assert ops.exp(torch.tensor([-103.0])).item() == 2.0**-149


LAYOUTS = {
    "transposed": lambda x: x.t(),
    "expanded": lambda x: x[:1].expand(4, 6),
    "every other": lambda x: x[::2, 1::2],
    "negative bit": lambda x: torch._neg_view(x),
    "channels": lambda x: x.reshape(2, 2, 2, 3).to(memory_format=torch.channels_last),
    "parameter": lambda x: torch.nn.Parameter(x),
    "overlapping": lambda x: x.as_strided((3, 3), (1, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_layout_does_not_change_the_bits(op: str, layout: str) -> None:
    x = LAYOUTS[layout](uniform(1, 4, 6))
    dense = x.detach().resolve_neg().contiguous()
    other = [uniform(2, *x.shape)] if op in BINARY else []
    assert_same_bits(getattr(ops, op)(x, *other), getattr(ops, op)(dense, *other))
    if other:
        assert_same_bits(getattr(ops, op)(*other, x), getattr(ops, op)(*other, dense))


def test_relu__inplace() -> None:
    x = uniform(1, 3, 4)
    expected, y = ops.relu(x), x.clone()
    assert ops.relu(y.t(), inplace=True).data_ptr() == y.data_ptr()
    assert_same_bits(y, expected)
    leaf = x.clone().requires_grad_()
    z = ops.relu(leaf * 1, True)
    z.sum().backward()
    assert_same_bits(leaf.grad, (x > 0).float())
    with pytest.raises(RuntimeError, match="leaf"):
        ops.relu(leaf, inplace=True)
    assert_same_bits(leaf, x)
    saved = ops.exp(leaf)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ops.relu(saved, inplace=True).sum().backward()


@pytest.mark.parametrize("op", BINARY)
def test_binary__rejects_shapes(op: str) -> None:
    for left, right in (((2, 3), (4,)), ((2, 3), (2,)), ((0,), (3,)), ((2, 1, 3), (4, 2, 2))):
        a, b = uniform(1, *left), uniform(2, *right)
        assert_rejected(
            lambda: getattr(ops, op)(a, b),
            ValueError,
            f"{op}: ",
            str(left),
            str(right),
            tensors=(a, b),
            by_torch=lambda: getattr(torch, op)(a, b),
        )
    assert getattr(ops, op)(uniform(1, 2), uniform(2, 2)).shape == (2,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_rejects_dtypes_and_devices(op: str, dtype: torch.dtype) -> None:
    x, good = torch.ones(2, dtype=dtype), torch.ones(2)
    name = str(dtype).removeprefix("torch.")
    storage = OPS[op].storage
    taken = storage is not None and dtype in storage.dtypes.supported
    refused = dtype.is_complex or (op not in BINARY and dtype.is_floating_point and not taken)
    calls = [(x, good), (good, x), (good, x[0]), (x, x)] if op in BINARY else [(x,)]
    for args in calls if refused else []:  # others are promoted: test_promotion.py
        assert_rejected(lambda: getattr(ops, op)(*args), TypeError, f"{op}: ", name, "float32", tensors=args)
    if op in BINARY:
        assert_rejected(lambda: getattr(ops, op)(good, good.to("meta")), ValueError, op, "cpu", "meta")
    sparse = [good.to_sparse()] * (2 if op in BINARY else 1)
    assert_rejected(lambda: getattr(ops, op)(*sparse), UnsupportedError, op, "layout")


@pytest.mark.parametrize("bad", [None, "a", [1.0], 1j, 10**400, np.ones(2, np.float32)])
@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_rejects_types(op: str, bad: Any) -> None:
    good = torch.ones(2)
    for args in ((bad, good), (good, bad)) if op in BINARY else ((bad,),):
        assert_rejected(lambda: getattr(ops, op)(*args), (TypeError, ValueError), f"{op}: ")  # type: ignore[arg-type]


def test_rejects_options() -> None:
    x = uniform(1, 3)
    for alpha in ("a", None, 1j, True, torch.ones(3), torch.tensor(1.0, requires_grad=True)):
        for op in ("add", "sub"):
            assert_rejected(lambda: getattr(ops, op)(x, x, alpha=alpha), TypeError, f"{op}: alpha", tensors=(x,))
    assert_rejected(lambda: ops.div(x, x, rounding_mode="x"), UnsupportedError, "div: rounding_mode", "x")
    assert_rejected(lambda: ops.sub(x, True), TypeError, "sub", by_torch=lambda: torch.sub(x, True))
    assert_rejected(lambda: ops.relu(x, 1), TypeError, "relu: inplace")
    assert_rejected(lambda: ops.maximum(x, 1.0), TypeError, "maximum: other", by_torch=lambda: torch.maximum(x, 1.0))


def test_forward_mode_raises() -> None:
    x = torch.ones(2)
    assert_rejected(lambda: torch.func.jvp(ops.exp, (x,), (x,)), UnsupportedError, "exp", "forward-mode")
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        assert_rejected(lambda: ops.exp(dual), UnsupportedError, "exp", "forward-mode")
    assert ops.exp(x).shape == (2,)
