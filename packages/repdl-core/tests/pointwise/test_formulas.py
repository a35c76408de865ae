"""Pointwise functions that are formulas, and linspace: against torch in float64, special values, torch's machinery."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

INF, NAN = math.inf, math.nan
FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "hypot": lambda x, y, m: m.hypot(x, y),
    "logaddexp": lambda x, y, m: m.logaddexp(x, y),
    "logaddexp2": lambda x, y, m: m.logaddexp2(x, y),
    "xlogy": lambda x, y, m: m.xlogy(x, y.abs() if m is torch else ops.abs(y)),
    "logit": lambda x, y, m: m.logit(x / 9, 0.1) if m is torch else ops.logit(ops.div(x, 9), 0.1),
    "logcumsumexp": lambda x, y, m: m.logcumsumexp(x, 0),
    "sinc": lambda x, y, m: m.sinc(x),
    "fmod": lambda x, y, m: m.fmod(x, y),
    "remainder": lambda x, y, m: m.remainder(x, y),
}

every_function = pytest.mark.parametrize("name", FUNCTIONS)


@every_function
def test_formulas__near_torch_in_float64(name: str) -> None:
    """At most 16 roundings of numbers up to 40, a derivative of slopes up to 40."""
    x, y = (uniform(k, 300, 2, scale=9.0).requires_grad_() for k in (1, 2))
    exact = [t.detach().double().requires_grad_() for t in (x, y)]
    ours, theirs = FUNCTIONS[name](x, y, ops), FUNCTIONS[name](*exact, torch)
    assert ((ours - theirs).abs() <= 16 * 40 * 2.0**-24).all()
    g = uniform(3, 300, 2)
    found = torch.autograd.grad(ours, (x, y), g, allow_unused=True)
    wanted = torch.autograd.grad(theirs, exact, g.double(), allow_unused=True)
    for a, e in zip(found, wanted):
        assert (a is None) == (e is None)
        if a is not None and e is not None:
            assert ((a - e).abs() <= 64 * 40 * 2.0**-24 * e.abs().clamp(min=1)).all()


@every_function
def test_formulas__audit_and_compiled(name: str) -> None:
    function = lambda x, y: FUNCTIONS[name](x, y, ops)
    x, y = (uniform(k, 5, 2, scale=9.0).requires_grad_() for k in (1, 2))
    report = repdl.audit(function, x, y)
    assert report.ok, report
    torch._dynamo.reset()
    expected, actual = function(x, y), torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)(x, y)
    assert_same_bits(actual.detach(), expected.detach())
    for a, e in zip(*(torch.autograd.grad(o, (x, y), x.detach(), allow_unused=True) for o in (actual, expected))):
        assert (a is None and e is None) or torch.equal(a, e)


def test_formulas__special_values_are_torchs() -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, INF, -INF, NAN, 3e38, -3e38, 1e-45])
    pairs = x.unsqueeze(1), x
    for name in ("logaddexp", "logaddexp2", "xlogy", "hypot"):
        a, e = (getattr(m, name)(*p) for m, p in ((ops, pairs), (torch, tuple(t.double() for t in pairs))))
        with_nan = x.isnan().unsqueeze(1) | x.isnan()  # C says that the hypotenuse of inf and NaN is inf
        a, e = (t.masked_fill(with_nan, 0) if name == "hypot" else t for t in (a, e))
        torch.testing.assert_close(a, e.float(), rtol=2.0**-21, atol=2.0**-22, equal_nan=True)
    x = torch.cat([x[:8], x[10:]])  # 3e38 * pi is beyond float32
    for name in ("logit", "sinc"):
        torch.testing.assert_close(getattr(ops, name)(x), getattr(torch, name)(x.double()).float(), equal_nan=True)
    leaf = torch.tensor([-INF, -INF, INF, 0.0]).requires_grad_()
    (grad,) = torch.autograd.grad(ops.logaddexp(leaf, torch.tensor([-INF, 1.0, 2.0, 0.0])).sum(), leaf)
    assert grad.tolist() == [0.5, 0.0, 1.0, 0.5]
    assert torch.equal(ops.logcumsumexp(torch.tensor([-INF, -INF, 0.0, INF]), 0), torch.tensor([-INF, -INF, 0.0, INF]))


def test_formulas__logcumsumexp_of_what_comes_before_alone() -> None:
    x = uniform(1, 40, 3, scale=50.0)
    whole = ops.logcumsumexp(x, 0)
    for n in (1, 2, 7, 32, 33):
        assert_same_bits(ops.logcumsumexp(x[:n], 0), whole[:n])


def test_formulas__remainders_are_exact() -> None:
    """Those of C where that is exact, of any quotient; where torch's vector loop gives NaN, too."""
    x, y = uniform(1, 400, scale=1e12), uniform(2, 400)
    x[::3], x[1::9], y[::5] = x[::3] * 1e20, x[1::9] * 1e-13, y[::5] * 1e-9
    x[:4], y[:4] = torch.tensor([4.0, -4.0, -0.0, 1e38]), torch.tensor([2.0, 2.0, 3.0, 1.0])
    for a, b in ((x, y), (x.double(), y.double())):
        found = ops.fmod(a, b)
        expected = torch.tensor([math.fmod(p, q) for p, q in zip(a.tolist(), b.tolist())], dtype=a.dtype)
        assert_same_bits(found, expected)
        wanted = [p % q for p, q in zip(a.double().tolist(), b.double().tolist())]
        signs = torch.where(found == 0, found, torch.tensor(wanted, dtype=torch.float64).to(a.dtype))
        assert torch.equal(ops.remainder(a, b), signs) or a.dtype is torch.float32
        assert ((ops.remainder(a, b) - signs).abs() <= 2.0**-23 * b.abs()).all()
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3.5])
    for name in ("fmod", "remainder"):
        a, e = (getattr(m, name)(special.unsqueeze(1), special) for m in (ops, torch))
        assert torch.equal(a.nan_to_num(7.0), e.nan_to_num(7.0)) and torch.equal(a.isnan(), e.isnan())
    assert ops.fmod(torch.tensor(3e38), torch.tensor(1e-45)).isnan()  # more than 2**149 multiples
    integers = torch.tensor([7, -7, 8])
    for name in ("fmod", "remainder", "floor_divide"):
        assert torch.equal(getattr(ops, name)(integers, 3), getattr(torch, name)(integers, 3))
    assert ops.remainder(5.5, torch.tensor([2.0, -2.0])).tolist() == [1.5, -0.5]


def test_linspace() -> None:
    for n in (0, 1, 2, 5, 300):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            found = ops.linspace(-0.7, 3.1, n, dtype=dtype)
            exact = torch.linspace(-0.7, 3.1, n, dtype=torch.float64)
            assert found.dtype is dtype and found.shape == (n,)
            assert ((found.double() - exact).abs() <= 3.2 * torch.finfo(dtype).eps + 2.0**-48).all()
    ends = ops.linspace(0.1, 0.3, 7)
    assert ends[0] == torch.tensor(0.1) and ends[-1] == torch.tensor(0.3)
    assert_same_bits(ops.linspace(0, 1, 257), (torch.arange(257.0) / 256))
    start = torch.tensor(2.0).requires_grad_()
    assert torch.autograd.grad(ops.linspace(start, 4, 5).sum(), start)[0] == 2.5
    assert ops.linspace(0, 1, 3, requires_grad=True).requires_grad
    report = repdl.audit(lambda: ops.linspace(0, 1, 9))
    assert report.ok, report
    run = lambda: ops.linspace(0.1, 2, 9)
    torch._dynamo.reset()
    assert_same_bits(torch.compile(run, backend="aot_eager", fullgraph=True)(), run())


def test_formulas__rejects() -> None:
    x = uniform(1, 4)
    for name in ("logaddexp", "hypot", "xlogy", "fmod", "remainder"):
        shapes = lambda m: getattr(m, name)(x, x[:3])
        assert_rejected(
            lambda: shapes(ops), ValueError, "expected shapes that broadcast", by_torch=lambda: shapes(torch)
        )
    assert_rejected(lambda: ops.hypot(x, 2.0), TypeError, "other is float", by_torch=lambda: torch.hypot(x, 2.0))  # type: ignore[arg-type]
    assert_rejected(lambda: ops.logit(x, "1"), TypeError, "eps is str")  # type: ignore[arg-type]
    assert_rejected(lambda: ops.xlogy(1.0, 2.0), ValueError, "no tensor")
    assert_rejected(lambda: ops.logcumsumexp(x, 1), IndexError, "dim is 1", by_torch=lambda: torch.logcumsumexp(x, 1))
    assert_rejected(
        lambda: ops.linspace(0, 1, -1), ValueError, "steps is -1", by_torch=lambda: torch.linspace(0, 1, -1)
    )
    assert_rejected(
        lambda: ops.linspace(x, 1, 3), ValueError, "start.dim() is 1", by_torch=lambda: torch.linspace(x, 1, 3)
    )
    assert_rejected(lambda: ops.linspace(0, 1, 3, dtype=torch.int64), UnsupportedError, "dtype is torch.int64")
