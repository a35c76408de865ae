"""Derivatives of ops against differences, as the kit compares them: RepDL's own, and wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from repdl import ops
from repdl.dtypes import SINGLE, Dtypes
from repdl.registry import OPS, define, implement, undefine
from repdl.registry.families import Family
from repdl.testing import Case, cases, uniform
from repdl.testing.check import Report, check_backend
from repdl.testing.derivatives import check_derivatives, has_slope, wrong_derivatives
from repdl.testing.differences import NoPointError
from repdl.testing.parity import ParityTests

OURS = sorted(op.name for op in OPS.values() if op.distribution == "repdl-core" and has_slope(op.name))
SAMPLE = OURS[::6]
BY_FORWARD = {
    "amax_backward", "batch_norm_backward", "cross_entropy_backward", "group_norm_backward", "layer_norm_backward",
    "max_backward", "rms_norm_backward",
}  # fmt: skip
"""Their arguments depend on each other: the second derivative of the forward op is theirs."""


def elements(case: Case) -> int:
    return sum(a.numel() for a in case.make() if isinstance(a, Tensor) and a.is_floating_point())


def near(op: str, size: int = 60) -> list[Case]:
    """The written cases of an op that have elements, those first that have nearly so many."""
    known = [case for case in cases(OPS[op].family) if case.op == op and case.derived is None]
    sizes = {case: elements(case) for case in known}
    known = [case for case in known if sizes[case] or OPS[op].takes_lists]
    return sorted(known, key=lambda case: abs(sizes[case] - size))


def orders(case: Case) -> int:
    """How many derivatives are compared."""
    try:
        return check_derivatives(case)
    except NoPointError:
        return 0


def test_derivatives__of_ours() -> None:
    for op in SAMPLE:
        assert any(orders(case) == 2 for case in near(op)), op


def test_derivatives__declared_to_be_no_slope() -> None:
    assert {op.name for op in OPS.values() if op.is_slope is False} == BY_FORWARD
    for op in BY_FORWARD:
        assert has_slope(op.removesuffix("_backward"))


@pytest.mark.nightly
@pytest.mark.parametrize("op", OURS)
def test_derivatives__of_ours_in_every_case(op: str) -> None:
    assert 2 in [orders(case) for number, case in enumerate(near(op)) if number < 8 or elements(case) < 400]


MISTAKES: dict[str, Callable[[Tensor], Tensor]] = {
    "sign": lambda g: -g,
    "twice": lambda g: 2 * g,
    "half": lambda g: g / 2,
    "none": lambda g: 0 * g,
    "order": lambda g: g.flip(list(range(g.dim()))),
}


class Mistaken:
    """An op whose derivative for one of its tensors is wrong."""

    def __init__(self, overload: Any, position: int, mistake: Callable[[Tensor], Tensor]) -> None:
        self._overload, self._position, self._schema = overload, position, overload._schema

        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x.view_as(x)

            @staticmethod
            def backward(ctx: Any, grad: Tensor) -> Tensor:
                return mistake(grad)

        self._wrong = Wrong.apply

    def __call__(self, *args: Any) -> Any:
        i = self._position
        return self._overload(*args[:i], self._wrong(args[i]), *args[i + 1 :])


def survivors(op: str) -> set[str]:
    """Mistakes in the derivative of an op that are found near none of some cases."""
    known = islice((case for case in near(op) if orders(case) == 2), 4)
    first = next(known)
    left = set(mistakes(first))
    for case in (first, *known):
        left = {mistake for mistake in left if not is_found(case, *mistake)}
        if not left:
            break
    return {f"{op} {name}: {mistake}" for name, mistake in left}


def mistakes(case: Case) -> Iterator[tuple[str, str]]:
    """The tensors that a derivative is taken of, and what can be wrong with it."""
    op = OPS[case.op]
    for argument, value in zip(op.overload._schema.arguments, case.make()):
        if isinstance(value, Tensor) and value.is_floating_point() and argument.name not in op.fixed:
            yield from ((argument.name, name) for name in MISTAKES if name != "order" or value.numel() > 2)


def is_found(case: Case, name: str, mistake: str) -> bool:
    right = OPS[case.op]
    names = [argument.name for argument in right.overload._schema.arguments]
    i = names.index(name)
    if not isinstance(case.make()[i], Tensor):
        return False
    OPS[case.op] = replace(right, overload=Mistaken(right.overload, i, MISTAKES[mistake]))
    try:
        check_derivatives(case)
    except AssertionError:
        return True
    finally:
        OPS[case.op] = right
    return False


CONSTANT = {"bernoulli", "div_floor", "div_trunc", "poisson", "sign"}
"""Their derivatives are 0."""


def test_derivatives__mistakes_are_found() -> None:
    for op in ("addcdiv", "linear", "softmax"):
        assert not survivors(op)


@pytest.mark.nightly
@pytest.mark.parametrize("op", [op for op in OURS if op not in CONSTANT])
def test_derivatives__mistakes_are_found_in_every_op(op: str) -> None:
    assert not survivors(op)


NUMBER = iter(range(1000))
"""torch keeps a schema for the rest of the process: each op has a name of its own."""


@contextmanager
def own_op(backward: Callable[..., Any], dtypes: Dtypes, **given: Any) -> Iterator[str]:
    """An op of another project, x * x - 3 * y, with a derivative."""
    name = f"squares_less_{next(NUMBER)}"
    define(
        name, "(Tensor x, Tensor y) -> Tensor", namespace="test_derivatives", distribution="their-ops",
        check=lambda x, y: None, fake=lambda x, y: x.new_empty(x.shape), dtypes=dtypes,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs), backward=backward, **given,
    )  # fmt: skip
    implement(name, "reference", lambda x, y: x * x - 3 * y)
    try:
        yield name
    finally:
        undefine(name)


def known(op: str) -> list[Case]:
    return [
        Case(op, "empty", lambda: (uniform(1, 0), uniform(2, 0))),
        Case(op, "values", lambda: (uniform(1, 5, 3), uniform(2, 5, 3)), dtypes=(torch.float64,)),
        Case(op, "special", lambda: (uniform(3, 40, special=True), uniform(4, 40, special=True))),
    ]


def right(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, _ = ctx.saved_tensors
    return ops.mul(grad, ops.add(x, x)), ops.mul(grad, torch.full_like(grad, -3))


def changed(to_x: Callable[[Tensor], Any], to_y: Callable[[Tensor], Any]) -> Callable[..., Any]:
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        of_x, of_y = right(ctx, grad)
        return to_x(of_x), to_y(of_y)

    return backward


def same(grad: Tensor) -> Tensor:
    return grad


def not_of_grad(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return right(ctx, grad.detach())


def without_factor(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, _ = ctx.saved_tensors
    return ops.add(x, x), right(ctx, grad)[1]


WRONG = {
    "sign": ("y: ", changed(same, lambda grad: grad.neg())),
    "factor of 2": ("x: ", changed(lambda grad: ops.add(grad, grad), same)),
    "no x": ("x: 0 along", changed(lambda grad: None, same)),
    "no y": ("y: 0 along", changed(same, lambda grad: None)),
    "NaN": ("x: nan along", changed(lambda grad: torch.full_like(grad, torch.nan), same)),
    "missing factor": ("x: ", without_factor),
    "operands": ("x: ", lambda ctx, grad: right(ctx, grad)[::-1]),
    "second": ("second derivative differs from differences: grad of output 0: 0 along", not_of_grad),
}


@pytest.mark.parametrize("dtypes", [Dtypes(), Dtypes(SINGLE)], ids=["float64", "float32"])
def test_derivatives__of_other_projects(dtypes: Dtypes) -> None:
    with own_op(right, dtypes) as op:
        assert [check_derivatives(case) for case in known(op)[1:]] == [2, 2]
        assert wrong_derivatives(op, known(op)) == []
    for words, backward in WRONG.values():
        with own_op(backward, dtypes) as op:
            found = list(map(str, wrong_derivatives(op, known(op))))
            assert len(found) == 2, (words, found)
            assert all(f"{op}__" in line and words in line and "by differences" in line for line in found), found


def test_derivatives__nothing_to_compare_is_an_error() -> None:
    with own_op(right, Dtypes()) as op:
        for few, why in (([], "no cases"), (known(op)[:1], f"{op}__empty: no argument has elements and a derivative")):
            (error,) = wrong_derivatives(op, few)
            assert str(error).startswith(f"{op}: its derivative was compared near no case ({why}); add a case")
    with own_op(lambda ctx, grad: 1 / 0, Dtypes()) as op:
        assert f"{op}__values: its derivative raises ZeroDivisionError" in str(wrong_derivatives(op, known(op))[0])


def test_derivatives__declarations() -> None:
    """A tensor that is `fixed` stays as it is; and near arguments of which it is no slope, none is compared."""
    with own_op(WRONG["no y"][1], Dtypes(), fixed=("y",)) as op:
        assert wrong_derivatives(op, known(op)) == []
    with own_op(WRONG["sign"][1], Dtypes(), is_slope=False) as op:
        assert wrong_derivatives(op, known(op)) == []
    with own_op(WRONG["sign"][1], Dtypes(), is_slope=lambda x, y: x.dim() == 1) as op:
        (error,) = wrong_derivatives(op, known(op))
        assert str(error).startswith(f"{op}__special v1: the derivative differs from differences: y: ")


def test_derivatives__in_the_kit_and_in_check(monkeypatch: pytest.MonkeyPatch) -> None:
    class Suite(ParityTests):
        __test__ = False
        backend = "reference"
        settings = (nullcontext,)

    for backward, wrong in ((right, 0), (WRONG["sign"][1], 2)):
        with own_op(backward, Dtypes()) as op:
            family = Family(op, "test_derivatives", "their-ops")
            monkeypatch.setattr("repdl.testing.check.written", lambda family, op=op: known(op))
            monkeypatch.setattr(Family, "golden", lambda family: None)
            suite = Suite()
            if wrong:
                with pytest.raises(AssertionError, match=f"^{op}__values v1: the derivative differs .*\n{op}__special"):
                    suite.test_parity__op(known(op))
            else:
                suite.test_parity__op(known(op))
            monkeypatch.setattr(Family, "golden", lambda family: {})
            (report,) = check_backend("reference", [family], lambda cases, _: cases, 1)
            assert report.derivatives == 1 and len(report.no_slopes) == wrong and report.failed
            assert Report("their-ops", no_slopes=report.no_slopes).failed == bool(wrong)
