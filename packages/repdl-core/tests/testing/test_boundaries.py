"""Derivatives at the ends of domains, at kinks, zeros, infinities and NaN, against torch's: NaN, infinity, sign, size.

What differs stands in `DIFFERENCES`, and with the same words in docs/reference/covered.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from boundary_calls import ONE, THREE, TWO, Call, calls, operands

from repdl import ops
from repdl.audit.op_classes import TORCH
from repdl.errors import DTypeError
from repdl.registry import OPS

Tensor = torch.Tensor
Point = tuple[float, ...]
_OF_TORCH = pytest.mark.skipif(not torch.__version__.startswith(f"{TORCH}."), reason=f"the page is of torch {TORCH}")
_PAGE = Path(__file__).parents[4] / "docs/reference/covered.md"


def _any(test: Callable[[float], bool]) -> Callable[[Point], bool]:
    return lambda point: any(map(test, point))


_nan, _zero = _any(math.isnan), lambda point: point[-2:] == (0, 0)
_no_number = _any(lambda v: not math.isfinite(v))

DIFFERENCES: list[tuple[str, Callable[[Point], bool], str]] = [
    (
        "hardtanh|relu6|hardshrink|softshrink|hardswish|logit|elu|celu|selu",
        _nan,
        "torch's depends on the place in its vector: 0, NaN or what comes back",
    ),
    ("logit", lambda point: point == (0,), "the sign of torch's infinity at -0 depends on the place in its vector"),
    ("softsign", _no_number, "the limit, torch's is NaN"),
    ("pow", _any(lambda v: v == -math.inf or v == 0), "as of `pow` of IEEE 754, torch's is that of `sqrt`"),
    ("hypot", _zero, "0, as norms have it, torch's is 0 / 0"),
    ("hypot|addcdiv", _any(lambda v: 0 < abs(v) < 1e-37), "a product of subnormal numbers rounds, or a square is 0"),
    (
        "xlogy",
        lambda point: _zero(point) or point == (0,),
        "0 where both are 0, and NaN beside NaN, torch's is NaN, and 0",
    ),
    ("logaddexp2?", _no_number, "one half each of equal infinities, torch's is NaN"),
    ("clamp", _nan, "goes to the operand whose NaN the result is, torch's is 0"),
    (
        "clamp",
        lambda point: len(point) == 3 and point[1] == point[2],
        "goes to the first of equal bounds, torch's to none",
    ),
    (
        "vector_norm",
        lambda point: 0 in point and _no_number(point),
        "0 for a zero beside NaN or infinity, torch's is NaN",
    ),
    ("amax|amin", _nan, "goes to the elements that are NaN, torch's is NaN for all"),
    (
        "binary_cross_entropy",
        lambda point: not 1e-37 < point[0] < 1,
        "of the loss, whose logarithms are -100 at least, torch's is infinite for the target",
    ),
    (
        "kl_div",
        lambda point: point[1] <= 0,
        "0 where the target is 0, and NaN below, torch's is NaN, and 0 times that 0",
    ),
    ("poisson_nll_loss", lambda point: not point[1] > 1, "Stirling's term is 0 up to 1, torch's derivative of it NaN"),
    ("soft_margin_loss", _no_number, "finite where torch's `exp` overflows"),
    ("multi(label)?_margin_loss", _no_number, "a loss that is NaN stays, torch's is 0"),
]
"""Names, where, and why."""
OF_SECOND: list[tuple[str, Callable[[Point], bool], str]] = [
    ("xlogy", _zero, "second derivatives of two zeros are 0, one of torch's is infinite"),
    ("glu", _no_number, "second derivatives are NaN, as infinities of both signs are added, torch's are infinite"),
    (
        "elu|celu|selu",
        lambda point: point == (0,),
        "second derivatives at 0 are those of the left side, torch's of the right",
    ),
    ("pow", lambda point: point == (0,), "as of `pow` of IEEE 754, torch's is that of `sqrt`"),
    (
        "binary_cross_entropy",
        lambda point: point[0] in (0, 1),
        "second derivatives are those of the first ones, whose divisor is 1e-12 at least",
    ),
]
_NONE = "second derivatives of zeros and infinities may be numbers where torch's are NaN"
_OVERFLOW = "near the largest number a product overflows in one order and not in another"


def _gradients(call: Call, tensors: list[Tensor], grad: float) -> list[Tensor]:
    given = [t.clone().requires_grad_() for t in tensors]
    output = call(*given)
    found = torch.autograd.grad(output, given, torch.full_like(output, grad), allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, given)]


def _second(call: Call, tensors: list[Tensor]) -> list[Tensor]:
    """The gradients of the sums of the gradients."""
    given = [t.clone().requires_grad_() for t in tensors]
    output = call(*given)
    firsts = torch.autograd.grad(output, given, torch.ones_like(output), create_graph=True, allow_unused=True)
    seconds: list[Tensor | None] = []
    for g in firsts:
        derived = g is not None and g.requires_grad
        seconds += (
            torch.autograd.grad(g.sum(), given, allow_unused=True, retain_graph=True)
            if derived
            else [None] * len(given)
        )
    return [torch.zeros_like(given[0]) if h is None else h for h in seconds]


def _differ(a: Tensor, b: Tensor, least: float = 2.0**-20) -> Tensor:
    """Where one is NaN, infinite, or of another size; a few last bits may differ, of what is about 1 or less."""
    ends = ~(a.isfinite() & b.isfinite())
    apart = (a - b).abs() > 2.0**-10 * b.abs() + least
    return torch.where(ends, ~((a == b) | (a.isnan() & b.isnan())), apart)


@_OF_TORCH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_boundaries__derivatives_are_torchs(dtype: torch.dtype) -> None:
    largest, compared = torch.finfo(dtype).max / 4, 0
    needed, wrong = set(), []
    for name, count, ways in calls():
        tensors = operands(name, count, dtype)
        for number, way in enumerate(ways):
            for grad in (1.0, -1.5, 0.0):
                try:
                    found = _gradients(way(ops, name), tensors, grad)
                except DTypeError:
                    assert dtype is torch.float64
                    break
                expected = _gradients(way(torch, name), tensors, grad)
                compared += len(tensors[0])
                for i, (a, b) in enumerate(zip(found, expected)):
                    for at in _differ(a, b).nonzero().flatten().tolist():
                        point = tuple(t[at].item() for t in tensors)
                        rows = [r for r in DIFFERENCES if re.fullmatch(r[0], name) and r[1](point)]
                        if rows:
                            needed.add(rows[0])
                        elif not any(largest < abs(v) < math.inf for v in point):
                            wrong.append((name, number, point, f"d{i}", grad, a[at].item(), b[at].item()))
    assert wrong == [], f"{len(wrong)} of {compared}"
    if dtype is torch.float32:
        assert [r for r in DIFFERENCES if r not in needed] == []
        assert compared > 50_000


@_OF_TORCH
def test_boundaries__second_derivatives_are_torchs() -> None:
    """Where torch has them: at zeros, kinks and infinities, not near the ends of the range of numbers."""
    needed, wrong, compared = set(), [], 0
    for name, count, ways in calls():
        points = zip(*(t.tolist() for t in operands(name, count, torch.float32)))
        usual = [p for p in points if all(v == 0 or 1e-19 < abs(v) < 1e19 or math.isinf(v) for v in p)]
        tensors = [torch.tensor(column) for column in zip(*usual)]
        for number, way in enumerate(ways):
            try:
                expected = _second(way(torch, name), tensors)
            except (NotImplementedError, RuntimeError) as error:
                assert "not implemented" in str(error), name
                continue
            compared += 1
            for i, (a, b) in enumerate(zip(_second(way(ops, name), tensors), expected)):
                for at in (_differ(a, b, 2.0**-16) & ~b.isnan()).nonzero().flatten().tolist():
                    rows = [r for r in OF_SECOND if re.fullmatch(r[0], name) and r[1](usual[at])]
                    needed.update(rows)
                    if not rows:
                        wrong.append((name, number, usual[at], f"d{i}", a[at].item(), b[at].item()))
    assert wrong == [] and compared > 100
    assert [r for r in OF_SECOND if r not in needed] == []


def test_boundaries__all_functions_of_elements_are_compared() -> None:
    """Those without a derivative, or of one that is not of the numbers alone, are named."""
    known = {*ONE, *TWO, *THREE, "div_floor", "prelu"}
    families = {name for name, op in OPS.items() if op.family in ("elementwise", "activation", "losses")}
    assert (families & set(ops.__all__)) - known == set()


def test_boundaries__the_page_has_what_differs() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    reasons = [why for *_, why in (*DIFFERENCES, *OF_SECOND)]
    assert [why for why in (*reasons, _OVERFLOW, _NONE) if why not in page] == []
