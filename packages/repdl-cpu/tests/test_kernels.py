"""The table of kernels as Python sees it: how tensors are read, what a kernel refuses."""

from __future__ import annotations

import pytest
import torch

from repdl.registry import OPS
from repdl.testing import assert_same_bits, processes, uniform
from repdl_cpu._native import NATIVE
from repdl_cpu.isa import native

KERNELS = native().kernels
RUN = (1, 0, 0)


def test_kernels__are_of_ops() -> None:
    assert {op for op, _ in KERNELS} <= OPS.keys()
    assert {dtype for _, dtype in KERNELS} == {"float32", "float64"}


def test_kernels__count_the_arguments_of_their_schema() -> None:
    for (op, _), kernel in KERNELS.items():
        schema = OPS[op].overload._schema
        full = len(schema.arguments) + len(schema.returns)
        assert kernel.arguments in (full, full - OPS[op].has_order), op


def test_kernels__refuse_what_is_not_their_schema() -> None:
    x, y = uniform(1, 5), torch.full((5,), 7.0)
    with pytest.raises(RuntimeError, match="add: got 2 arguments and outputs, the kernel has 3"):
        KERNELS["add", "float32"]((x,), (y,), RUN, None)
    with pytest.raises(
        RuntimeError, match="leaky_relu: argument 1 is not of the type that the kernel has in its place"
    ):
        KERNELS["leaky_relu", "float32"]((x, "slope"), (y,), RUN, None)
    with pytest.raises(TypeError, match="a kernel got a tensor of a dtype that kernels do not have"):
        KERNELS["neg", "float32"]((x.to(torch.complex64),), (y,), RUN, None)
    assert (y == 7).all()
    NATIVE.call("neg", x, (x,), (y,))
    assert_same_bits(y, -x)


WITHOUT_DLPACK = """
import torch
torch.Tensor.__dlpack_c_exchange_api__ = None  # as before torch 2.10
from repdl.cli import main
raise SystemExit(main(["check", "cpu", "--family", "elementwise", "--family", "cast", "--family", "pow"]))
"""


def test_kernels__read_tensors_by_their_attributes_too() -> None:
    run = processes.python("-c", WITHOUT_DLPACK)
    assert run.returncode == 0 and " 0 differ from the golden bits" in run.stdout, run.stdout + run.stderr
