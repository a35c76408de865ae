"""Calls that cannot work: a clear error, and the next call and the other tensors are as before.

Where there is no GPU, tensors on one are torch's fake ones: they have a device and no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

import repdl
from repdl.errors import BackendError, DeviceError
from repdl.registry import OPS, lookup
from repdl.registry.backend import get_backend
from repdl.testing import Case, assert_same_bits, bits, cases, run_on, uniform
from repdl_cuda.native import NATIVE

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]
by_backend = pytest.mark.parametrize("backend", BACKENDS)


def flat(args: list[Any]) -> list[torch.Tensor]:
    """The tensors among the arguments of an op."""
    nested = [a if isinstance(a, list) else [a] for a in args]
    return [t for group in nested for t in group if isinstance(t, torch.Tensor)]


def case_of(op: str) -> Case:
    """The first case of an op that has elements."""
    return next(case for case in cases(OPS[op].family) if case.op == op and flat(case.make())[0].numel())


SEVERAL = [op for op in OPS if len(flat(case_of(op).make())) - len(OPS[op].host) > 1]
"""The ops that take several tensors, beside those that the host reads."""


@pytest.fixture(autouse=True)
def next_call_works() -> Iterator[None]:
    """After each test, on every backend."""
    yield
    for backend in BACKENDS:
        for op in ("sum", "matmul"):
            case = case_of(op)
            assert_same_bits(run_on(case, "v1", backend), run_on(case, "v1", "reference"))


def placed(args: list[Any], *devices: str) -> list[Any]:
    """Arguments with tensors of no content, the first on the first device and so on, the rest on the last."""
    left = list(devices)

    def place(argument: Any) -> Any:
        if isinstance(argument, list):
            return [place(a) for a in argument]
        if not isinstance(argument, torch.Tensor):
            return argument
        device = left.pop(0) if len(left) > 1 else left[0]
        return torch.empty(argument.shape, dtype=argument.dtype, device=device)

    return [place(a) for a in args]


@pytest.mark.parametrize("op", SEVERAL)
def test_bad_input__cpu_and_cuda(op: str) -> None:
    args = case_of(op).args("v1")
    with nullcontext() if "cuda" in BACKENDS else FakeTensorMode():
        mixed = placed(args, "cpu", "cuda")
        with pytest.raises(DeviceError, match=f"{op}: tensors on cpu and cuda:0, expected one device"):
            OPS[op].overload(*mixed)


@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="torch wants the devices of fake tensors, where it has one")
@pytest.mark.parametrize("op", SEVERAL)
def test_bad_input__two_gpus(op: str) -> None:
    args = case_of(op).args("v1")
    with FakeTensorMode():
        mixed = placed(args, "cuda:0", "cuda:1")
        with pytest.raises(DeviceError, match=f"{op}: tensors on cuda:0 and cuda:1, expected one device"):
            OPS[op].overload(*mixed)


def test_bad_input__device_without_backend() -> None:
    with pytest.raises(BackendError, match="matmul: no backend for mps tensors is installed"):
        lookup("matmul", "mps")


@pytest.mark.skipif("cuda" in BACKENDS, reason="this machine has a GPU")
def test_bad_input__no_gpu() -> None:
    with pytest.raises(BackendError, match="'cuda' is installed but failed to load: .*(no device: |built without)"):
        lookup("matmul", "cuda")


@by_backend
def test_bad_input__device_of_another_backend(backend: str) -> None:
    device = get_backend(backend).device
    other = "cpu" if device == "cuda" else "cuda"
    with repdl.use_backend(backend), pytest.raises(BackendError, match=f"takes {device} tensors, got {other}; move"):
        lookup("matmul", other)


@by_backend
def test_bad_input__grid_too_large(backend: str) -> None:
    """Sizes that no memory holds, given to kernels as they are: nothing is launched."""
    x = uniform(1, 1).to(get_backend(backend).device)
    before = bits(x)
    many, v1 = 2**45, (256, 64, 1024)
    rows, column, row = x.expand(many, 1), x.expand(2**30, 1), x.expand(1, 2**30)
    with pytest.raises(RuntimeError, match=r"softmax: the grid has \d+ x 1 x 1 blocks, expected at most"):
        NATIVE.call("softmax", x, (rows, 1, v1), (rows,))
    with pytest.raises(RuntimeError, match=r"neg: the grid has \d+ x 1 x 1 blocks, expected at most"):
        many_of_one = x.expand(many)
        NATIVE.call("neg", x, (many_of_one,), (many_of_one,))
    with pytest.raises(RuntimeError, match=r"matmul: the product has sizes .*, expected at most"):
        batch = x.expand(many, 1, 1)
        NATIVE.call("matmul", x, (batch, batch, False, False, v1), (batch,))
    with pytest.raises(RuntimeError, match=r"matmul: the product has \d+ tiles, expected at most"):
        NATIVE.call("matmul", x, (column, row, False, False, v1), (x.expand(2**30, 2**30),))
    assert torch.equal(bits(x), before)


@by_backend
def test_bad_input__out_of_memory(backend: str) -> None:
    """Of the host, for the emulated build: torch allocates there and here, before anything is launched."""
    x = uniform(1, 1).to(get_backend(backend).device)
    before = bits(x)
    with repdl.use_backend(backend), pytest.raises(RuntimeError, match="(?i)memory"):
        repdl.ops.neg(x.expand(2**48))
    assert torch.equal(bits(x), before)
