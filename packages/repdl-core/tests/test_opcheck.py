"""torch.library.opcheck: schema, autograd registration, fake kernel and dynamic shapes of every op.

A few cases an op, one of them in bfloat16, run by default and the others are marked `slow`. Cases with a NaN in the
output or in a gradient are left out: opcheck compares two runs, and there NaN differs from NaN.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repdl.errors import UnsupportedError
from repdl.registry import OPS
from repdl.testing import Case, cases

NOT_DIFFERENTIABLE = {
    *(op.name for op in OPS.values() if op.mutates),
    *("cross_entropy_backward", "nll_loss_backward"),
}
PREFERRED = ("special", "values", "plain", "empty", "strided", "batched_broadcast", "outer", "dim_0")
FAST = 3


def arguments(case: Case) -> tuple[Any, ...]:
    """The case's arguments, its float tensors leaves that require grad where the op has a derivative."""
    if case.op in NOT_DIFFERENTIABLE:
        return case.args()
    return tuple(
        a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in case.args()
    )


def has_nan(case: Case) -> bool:
    """Whether the outputs or the gradients of their sums (which opcheck takes) hold a NaN."""
    args = arguments(case)
    result = OPS[case.op].overload(*args)
    if result is None:
        changed = [x for a in args if isinstance(a, list) for x in a]
        return any(bool(x.isnan().any()) for x in changed if x is not None)
    outputs = [result] if isinstance(result, torch.Tensor) else list(result)
    roots = [y for y in outputs if y.requires_grad]
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    grads = torch.autograd.grad([y.sum().abs() for y in roots], leaves, allow_unused=True) if roots else ()
    return any(bool(t.isnan().any()) for t in (*outputs, *grads) if t is not None and t.is_floating_point())


def chosen() -> list[Any]:
    """Every case, the preferred ones and the first ones of each op as fast tests, the rest as slow ones."""
    params = []
    for op in OPS.values():
        if op.distribution != "repdl-core":
            continue
        mine = [case for case in cases(op.family) if case.op == op.name]
        mine.sort(key=lambda case: PREFERRED.index(case.name) if case.name in PREFERRED else len(PREFERRED))
        usable = [case for case in mine if not case.derived and not has_nan(case)]
        halves = [case for case in mine if case.derived and case.name.endswith("_bf16") and not has_nan(case)][:1]
        fast = [*usable[:FAST], *halves]
        params += [
            pytest.param(case, id=str(case), marks=() if case in fast else pytest.mark.slow)
            for case in (*usable, *halves)
        ]
    return params


CASES = chosen()


@pytest.mark.parametrize("case", CASES)
def test_opcheck__case(case: Case) -> None:
    torch.library.opcheck(OPS[case.op].overload, arguments(case))


def test_opcheck__reaches_every_op() -> None:
    checked = {param.values[0].op for param in CASES}
    assert checked == {op.name for op in OPS.values() if op.distribution == "repdl-core"}


@pytest.mark.parametrize("op", sorted(op.name for op in OPS.values() if op.distribution == "repdl-core"))
def test_opcheck__ops_without_derivative_are_these(op: str) -> None:
    case = next(case for case in cases(OPS[op].family) if case.op == op)
    args = tuple(
        a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in case.args()
    )
    if op in ("adam_step", "sgd_step"):
        assert OPS[op].overload._schema.is_mutable
        return
    result = OPS[op].overload(*args)
    first = result if isinstance(result, torch.Tensor) else result[0]
    assert first.requires_grad
    if op in NOT_DIFFERENTIABLE:
        with pytest.raises(UnsupportedError, match=f"{op}: has no derivative"):
            first.sum().backward()
    else:
        first.sum().backward()
        assert any(isinstance(a, torch.Tensor) and a.grad is not None for a in args)
