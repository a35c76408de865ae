"""cast against MPFR and torch; and half storage: every op is widen, compute in float32, round."""

from __future__ import annotations

import gmpy2
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from repdl import ops
from repdl.dtypes import ALL, FLOATS_16_BIT
from repdl.registry import OPS
from repdl.registry.backend import backends, use_backend
from repdl.testing import Case, assert_same_bits, bits, cases, uniform
from repdl.testing.oracle import assert_rejected

PRECISION = {torch.float32: (24, -148, 128), torch.bfloat16: (8, -132, 128), torch.float16: (11, -23, 16)}
"""Of MPFR: digits, and the exponents of the smallest subnormal and of infinity."""
NAN = {torch.float32: 0x7FC00000, torch.float64: 0x7FF8 << 48, torch.bfloat16: 0x7FC0, torch.float16: 0x7E00}
WIDER = [(a, b) for a in (torch.float64, torch.float32) for b in PRECISION if a is not b]


def exact(x: float, dtype: torch.dtype) -> float:
    """`x` rounded once to `dtype`."""
    precision, emin, emax = PRECISION[dtype]
    with gmpy2.context(precision=precision, emin=emin, emax=emax, subnormalize=True):
        return float(gmpy2.mpfr(x))


@pytest.mark.parametrize(("source", "target"), WIDER)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_cast__rounds_once(source: torch.dtype, target: torch.dtype, data: st.DataObject) -> None:
    width = 64 if source is torch.float64 else 32
    values = data.draw(st.lists(st.floats(width=width, allow_nan=False), min_size=1, max_size=20))
    scale = data.draw(st.sampled_from([1.0, 2.0**-20, 2.0**-130, 2.0**-140, 2.0**100]))
    x = torch.tensor([v * scale for v in values], dtype=source)
    expected = torch.tensor([exact(v, target) for v in x.tolist()], dtype=torch.float64)
    assert_same_bits(ops.cast(ops.cast(x, target), torch.float64), expected, str(x.tolist()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_cast__forbidden_rewrite_by_way_of_float32(dtype: torch.dtype) -> None:
    """A double just above a midpoint of two halves, which float32 cannot tell from it."""
    half = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[dtype]
    x = torch.tensor([1 + half + 2.0**-40, 1 + 3 * half - 2.0**-40], dtype=torch.float64)
    once = torch.tensor([1 + 2 * half, 1 + 2 * half], dtype=torch.float64)
    assert torch.equal(ops.cast(ops.cast(x, dtype), torch.float64), once)
    assert not torch.equal(ops.cast(ops.cast(ops.cast(x, torch.float32), dtype), torch.float64), once)


@pytest.mark.parametrize("dtype", FLOATS_16_BIT)
def test_cast__every_half_comes_back(dtype: torch.dtype) -> None:
    x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    back = {wide: ops.cast(ops.cast(x, wide), dtype) for wide in (torch.float32, torch.float64)}
    expected = torch.where(x.isnan(), torch.tensor(NAN[dtype], dtype=torch.int16), bits(x))
    for wide, y in back.items():
        assert torch.equal(bits(y), expected), wide
        assert torch.equal(ops.cast(x, wide)[~x.isnan()], x.to(wide)[~x.isnan()])


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_cast__nan_is_one(source: torch.dtype, target: torch.dtype) -> None:
    x = torch.tensor([float("nan")] * 40, dtype=source)
    x.view(torch.uint8)[::3] |= 1  # payloads
    x = torch.cat([x, -x])
    assert x.isnan().all()
    y = ops.cast(x, target)
    assert set(bits(y).tolist()) == {NAN[target]}


@pytest.mark.parametrize("dtype", ALL)
def test_cast__gradient_is_cast_back(dtype: torch.dtype) -> None:
    x = uniform(1, 5, 3).requires_grad_()
    ops.cast(x, dtype).backward(uniform(2, 5, 3).to(dtype))
    assert x.grad is not None
    assert_same_bits(x.grad, ops.cast(uniform(2, 5, 3).to(dtype), torch.float32))


def test_cast__rejects() -> None:
    x = uniform(1, 2)
    assert_rejected(lambda: ops.cast(x, torch.int64), TypeError, "cast: dtype", "int64")
    assert_rejected(lambda: ops.cast(x.long(), torch.float32), TypeError, "cast: input", "int64")
    assert_rejected(lambda: ops.cast(x, "float32"), TypeError, "cast: dtype")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.cast(1.0, torch.float32), TypeError, "cast: input")  # type: ignore[arg-type]


# Half storage

HALF_CASES = [c for c in cases() if c.derived in FLOATS_16_BIT]
HALF_OPS = sorted({c.op for c in HALF_CASES})
FEW = 2
"""How many cases of an op in each dtype the reference, slow, runs by day."""


EVERY = pytest.param("reference", None, marks=pytest.mark.nightly)


@pytest.mark.parametrize(("backend", "most"), [("reference", FEW), EVERY, ("cpu", None)])
@pytest.mark.parametrize("name", HALF_OPS)
def test_half__is_widen_compute_round(name: str, backend: str, most: int | None) -> None:
    if backend not in {n for n, row in backends().items() if row.error is None}:
        pytest.skip(f"{backend} is not installed")
    for dtype in FLOATS_16_BIT:
        mine = [case for case in HALF_CASES if case.op == name and case.derived is dtype]
        for case in mine[:most]:
            if not rounds_by_step(case.op):
                check_widened(case, backend)


def rounds_by_step(op: str) -> bool:
    """Whether halves are rounded after each step of a formula (recurrent.md)."""
    storage = OPS[op].storage
    return storage is not None and storage.dtypes.keeps_16_bit and OPS[op].formula is not None


def check_widened(case: Case, backend: str) -> None:
    op, args = OPS[case.op], case.args()
    with use_backend(backend):
        result = op.overload(*args)
        wide = [
            ops.cast(a, torch.float32) if isinstance(a, torch.Tensor) and a.dtype in FLOATS_16_BIT else a for a in args
        ]
        expected = op.overload(*wide)
        actual, expected = ((r,) if isinstance(r, torch.Tensor) else r for r in (result, expected))
        storage = next(a.dtype for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
        assert actual[0].dtype is storage, str(case)
        for number, (a, e) in enumerate(zip(actual, expected)):
            assert a.dtype in (storage, e.dtype), f"{case} output {number}"
            assert_same_bits(a, e if a.dtype is e.dtype else ops.cast(e, a.dtype), f"{case} output {number}")


def test_half__every_op_of_the_list_takes_it() -> None:
    assert set(HALF_OPS) == {op.name for op in OPS.values() if op.storage is not None}


@pytest.mark.parametrize("op", HALF_OPS)
def test_half__fake_outputs(op: str) -> None:
    for case in (case for case in HALF_CASES if case.op == op and "special" not in case.name):
        args = case.args()
        moved = [a.to("meta") if isinstance(a, torch.Tensor) else a for a in args]
        real, fake = OPS[op].overload(*args), OPS[op].overload(*moved)
        for r, f in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (real, fake))):
            assert (r.shape, r.dtype) == (f.shape, f.dtype), str(case)


@pytest.mark.parametrize("dtype", FLOATS_16_BIT)
def test_half__saves_half_for_the_backward(dtype: torch.dtype) -> None:
    saved: list[torch.Tensor] = []
    x, w = (uniform(s, 4, 4).to(dtype).requires_grad_() for s in (1, 2))

    def keep(t: torch.Tensor) -> torch.Tensor:
        saved.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        y = ops.relu(ops.mm(x, w))
    assert {t.dtype for t in saved} == {dtype}
    y.backward(torch.ones(4, 4, dtype=dtype))
    assert x.grad is not None and x.grad.dtype is dtype


@pytest.mark.parametrize("dtype", FLOATS_16_BIT)
def test_half__derived_functions_round_once(dtype: torch.dtype) -> None:
    def once(function, *tensors):  # type: ignore[no-untyped-def]
        return ops.cast(function(*(ops.cast(t, torch.float32) for t in tensors)), dtype)

    x, y, z = (uniform(s, 60, 60).to(dtype) for s in (1, 2, 3))
    p = ops.softmax(x, 1)
    target = torch.arange(60)
    for function, tensors in (
        (lambda a: ops.mean(a, 1), (x,)),
        (lambda a, b: ops.add(a, b, alpha=0.3), (x, y)),
        (lambda a, b: ops.sub(a, b, alpha=0.3), (x, y)),
        (lambda a, b, c: ops.addmm(a, b, c, beta=0.3, alpha=0.7), (x, y, z)),
        (lambda a, b: ops.cross_entropy(a, b), (x, p)),
        (lambda a: ops.cross_entropy(a, target, label_smoothing=0.1), (x,)),
    ):
        result = function(*tensors)
        assert_same_bits(result, once(function, *tensors))
        assert result.dtype is dtype


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("value", [0.1, 3, 1e30, -1e300, 2**53 + 1, 2**60 + 2**52, 2**62 + 2**54 + 1, 257])
def test_numbers__are_rounded_once_to_the_dtype(dtype: torch.dtype, value: float) -> None:
    with use_backend("reference"):
        rounded = ops.cast(ops.add(torch.zeros((), dtype=dtype), value), torch.float64).item()
    expected = float(value) if dtype is torch.float64 else 0.0
    if dtype is not torch.float64:
        precision, emin, emax = PRECISION[dtype]
        with gmpy2.context(precision=precision, emin=emin, emax=emax, subnormalize=True):
            expected = float(gmpy2.mpfr(gmpy2.mpz(value) if isinstance(value, int) else value))
    assert rounded == expected


def test_half__mixed_dtypes() -> None:
    x, w = uniform(1, 5, 8).bfloat16(), uniform(2, 8)
    assert ops.layer_norm(x, [8], w, w).dtype is torch.bfloat16  # float32 parameters
    assert ops.add(x, w).dtype is torch.float32  # promoted, as torch does
    leaf = w.clone().requires_grad_()
    ops.layer_norm(x, [8], leaf, w).backward(torch.ones(5, 8, dtype=torch.bfloat16))
    assert leaf.grad is not None and leaf.grad.dtype is torch.float32
    for call in (
        lambda: ops.mm(x, uniform(2, 8, 3)),
        lambda: ops.mm(x, uniform(2, 8, 3).half()),
        lambda: ops.layer_norm(x, [8], w.bfloat16(), w),
        lambda: ops.layer_norm(x, [8], w.half()),
        lambda: ops.layer_norm(x, [8], None, w),
        lambda: ops.layer_norm(w.expand(5, 8), [8], w.bfloat16()),
        lambda: ops.addmm(w, x, uniform(3, 8, 8)),
    ):
        assert_rejected(call, TypeError, "expected")


def test_half__exact_functions_round_twice() -> None:
    x = torch.from_numpy(np.arange(0x3C00, 0x4400, dtype=np.int16)).view(torch.float16)
    y = ops.exp(x)
    assert_same_bits(y, ops.cast(ops.exp(ops.cast(x, torch.float32)), torch.float16))
