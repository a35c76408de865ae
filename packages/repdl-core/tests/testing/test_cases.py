"""Cases say themselves in which dtypes they are derived, and every op has some in each dtype that it takes."""

from __future__ import annotations

import pytest
import torch

from repdl.dtypes import FLOATS_16_BIT
from repdl.registry import DECLARATIONS, OPS
from repdl.testing import DOUBLE, EVERY, Case, cases, uniform
from repdl.testing.cases import with_derived
from repdl.testing.generated import MOST_STEPS, STEPS

OURS = sorted(op.name for op in OPS.values() if op.distribution == "repdl-core")


def names(*written: Case) -> list[str]:
    return [case.name for case in with_derived(written)]


def test_cases__a_name_decides_nothing() -> None:
    make = lambda: (uniform(1, 3),)
    assert names(Case("sqrt", "special", make)) == ["special"]
    assert names(Case("sqrt", "any", make, dtypes=EVERY)) == ["any", "any_bf16", "any_f16", "any_f64"]
    assert names(Case("sqrt", "any", make, dtypes=DOUBLE)) == ["any", "any_f64"]
    assert names(Case("exp", "any", make, dtypes=EVERY)) == ["any", "any_bf16", "any_f16", "any_f64"]


def test_cases__derived_ones_have_the_dtype_and_the_shapes() -> None:
    written = Case("sqrt", "any", lambda: (uniform(1, 6, 4)[::2, 1:],), dtypes=EVERY)
    for case in with_derived([written])[1:]:
        (x,), (y,) = written.make(), case.make()
        assert y.dtype is case.derived and y.shape == x.shape and case.dtypes == ()
    x = uniform(1, 3)
    step = Case("sgd_step", "any", lambda: ([x], [x], [], 0.1, 0.0, 0.0, 0.0, False, False, False), dtypes=DOUBLE)
    _, double = with_derived([step])
    assert [t.dtype for a in double.make() if isinstance(a, list) for t in a] == [torch.float64] * 2


def test_cases__mixed_keeps_parameters() -> None:
    args = uniform(1, 3, 4), [4], uniform(2, 4), None, 1e-5
    _, bf16, mixed = with_derived([Case("layer_norm", "any", lambda: args, dtypes=(torch.bfloat16,), mixed=True)])
    assert bf16.make()[2].dtype is mixed.make()[0].dtype is torch.bfloat16
    assert mixed.make()[2].dtype is torch.float32 and mixed.name == "any_mixed"


@pytest.mark.parametrize("op", OURS)
def test_cases__every_dtype_of_an_op_has_one(op: str) -> None:
    storage = OPS[op].storage
    if storage is None:  # cast has them written out; of steps see test_float64.py
        return
    family = cases(OPS[op].family)
    having = {case.derived for case in family if case.op == op} - {None}
    assert having == set(storage.dtypes.supported) - {torch.float32}
    if storage.dtypes.parameters and set(FLOATS_16_BIT) <= having:
        assert any(case.name.endswith("_mixed") for case in family), f"{op}: no case with parameters of another dtype"


def test_cases__every_step_has_those_of_its_kind() -> None:
    steps = [op for op in OPS.values() if op.mutates and op.takes_lists and op.distribution == "repdl-core"]
    assert len(steps) >= 3
    for op in steps:
        of = {case.name for case in cases(op.family)}
        rates = {"lr_0", "lr_overflows_float32"} if "lr" not in DECLARATIONS[op.name].cases.values["options"] else set()
        assert {*STEPS, *MOST_STEPS, "subnormal_hyperparameters", "lr_0"} - rates <= of, op.name
