"""A contract that a call names reaches every op that it is composed of, whatever the contract of the process."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import RepDLError
from repdl.testing import opinfo
from repdl.testing.contracts import ContractsTaken

pytest.importorskip("expecttest", reason="torch's database of ops needs it")
PROCESS, CALL = "dot_chunk=7,sum_lanes=2,sum_block=8", "sequential"
NAMES = sorted(
    name
    for name in dir(ops)
    if callable(getattr(ops, name))
    and "contract" in inspect.signature(getattr(ops, name)).parameters
    and opinfo.entries(name)
)


def taken(name: str, sample: Any) -> ContractsTaken:
    """By a call of a function with a contract, and by its derivative."""
    with ContractsTaken() as mode:
        output = getattr(ops, name)(sample.input, *sample.args, **sample.kwargs, contract=CALL)
        outputs = [t for t in opinfo.tensors_of(output) if t.requires_grad]
        inputs = [t for t in opinfo.tensors_of((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
        if outputs and inputs:
            torch.autograd.grad(outputs, inputs, [torch.ones_like(t) for t in outputs], allow_unused=True)
    return mode


@pytest.mark.parametrize("name", NAMES)
def test_explicit_contract__of_functions(name: str) -> None:
    called = asked = 0
    dtype = torch.int64 if name == "bincount" else torch.float32
    with repdl.use_contract(PROCESS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in opinfo.entries(name):
            for sample in opinfo.samples(info, dtype, 4) if opinfo.calls_directly(name, info) else ():
                asked += 1
                try:
                    mode = taken(name, sample)
                except (RepDLError, TypeError):  # arguments that are torch's alone
                    continue
                called += 1
                assert not mode.others(CALL), mode.others(CALL)
    assert called or not asked, f"none of {asked} samples could be called"


def test_explicit_contract__control() -> None:
    """Each of these functions is seen to take a contract, and one that is not passed on is found."""
    assert len(NAMES) > 150
    x = torch.ones(9, requires_grad=True)
    with repdl.use_contract(PROCESS), ContractsTaken() as mode:
        ops.mean(ops.neg(x), contract=CALL).backward()
    assert ("mean", CALL) in mode.taken
    with repdl.use_contract(PROCESS), ContractsTaken() as mode:
        ops.mul(ops.mean(x), 2.0, contract=CALL)
    assert mode.others(CALL) == {("mean", PROCESS)}
