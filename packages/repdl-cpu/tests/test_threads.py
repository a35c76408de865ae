"""In-place steps and shared work with many threads: every element is stepped once, by somebody. And whose
threads they are.

A part that overlaps another, or leaves something out, changes parameters that the contract does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import repdl
import repdl_cpu
from repdl.registry import OPS, implementation, implementations
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits, processes, uniform
from repdl.testing.steps import step_arguments

LISTS = [[60_000], [115_000], [9000, 0, 1, 50_001, 12_288], [300] * 90]
"""Elements of the tensors of a step: shares of seven threads in one tensor, across many, and in streams."""


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = repdl.settings.threads.state.threads
    yield
    repdl.settings.threads.state.threads = before


def arguments(op: str, counts: list[int], dtype: torch.dtype) -> tuple[Any, ...]:
    total = sum(counts)
    return step_arguments(op, lambda i: [t.clone() for t in uniform(i, total).abs().to(dtype).split(counts)])


def stepped(backend: str, op: str, counts: list[int], dtype: torch.dtype) -> list[torch.Tensor]:
    given = arguments(op, counts, dtype)
    implementation(get_backend(backend), op)(*given)
    return [torch.cat(list(tensors)) for tensors in given if isinstance(tensors, list)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("op", [op.name for op in OPS.values() if op.mutates])
def test_threads__step(op: str, dtype: torch.dtype) -> None:
    for counts in LISTS:
        expected = stepped("reference", op, counts, dtype)
        for isa in {repdl_cpu.get_isa(), "baseline"}:
            with repdl_cpu.use_isa(isa):
                for threads in (1, 7, 16):
                    repdl.set_num_threads(threads)
                    what = f"{op} of {sum(counts)} in {len(counts)} on {isa} with {threads} threads"
                    assert_same_bits(stepped("cpu", op, counts, dtype), expected, what)


def test_threads__step_again_and_again() -> None:
    """What the pool's threads race for: the same step twenty times."""
    repdl.set_num_threads(7)
    expected = stepped("cpu", "adam_step", LISTS[0], torch.float32)
    for _ in range(20):
        assert_same_bits(stepped("cpu", "adam_step", LISTS[0], torch.float32), expected)


@pytest.mark.parametrize("threads", [2, 3, 7, 16])
def test_threads__parts_of_every_length(threads: int) -> None:
    """Copies of n elements, n around what is worth a thread: nothing is left out."""
    repdl.set_num_threads(threads)
    table = implementations(get_backend("cpu"))
    for n in [k * (1 << 12) + d for k in (1, 2, 3, 7, 8) for d in (-1, 0, 1)]:
        x = uniform(1, n)
        assert_same_bits(table["neg"](table["neg"](x)), x, f"{n} elements")
        assert_same_bits(table["cast"](table["cast"](x, torch.float64), torch.float32), x, f"{n} elements, cast")


WITH_TORCH = """
import itertools, os, signal, threading, torch, repdl
from repdl.testing import uniform

a, b = (uniform(i, 150, 150).requires_grad_() for i in (1, 2))  # small enough for torch to take one thread

def results():
    y = repdl.ops.softmax(repdl.ops.mm(a, b), 1)
    return repdl.digest([y, *torch.autograd.grad(y, (a, b), y.detach())])

def threads():
    return len(os.listdir("/proc/self/task"))

torch.set_num_threads(1)
right, alone = results(), threads()
torch.set_num_threads(3)
torch.ones(1 << 20) + 1
assert threads() == alone + 2, "torch has no team"
assert [results() for _ in range(5)] == [right] * 5
assert threads() == alone + 2, "we have threads beside torch's"

given = []
callers = [threading.Thread(target=lambda: given.extend([results() for _ in range(20)])) for _ in range(4)]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
assert given == [right] * 80, "other bits from threads of Python"

child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if results() == right else 1)
assert os.waitpid(child, 0)[1] == 0, "a forked child hangs, or has other bits"

for torchs, ours in itertools.product((1, 2, 5), (1, 2, 4, 7)):
    torch.set_num_threads(torchs)
    repdl.set_num_threads(ours)
    assert results() == right, f"{torchs} threads of torch, {ours} of ours"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="torch's team is used on Linux only")
def test_threads__are_torchs() -> None:
    """Where torch computes on OpenMP's threads, so do we, and have none beside them; from several threads of
    Python at once; in a forked child, which lacks torch's; with other numbers than torch's."""
    if "backend: OpenMP" not in torch.__config__.parallel_info():
        pytest.skip("torch has no OpenMP here")
    assert "omp" in repdl.backends()["cpu"].details["team"]
    run = processes.python("-c", WITH_TORCH)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_threads__sums_of_few_outputs(dtype: torch.dtype) -> None:
    """Threads share the blocks of one output; of an input with gaps they gather them."""
    reference, ours = (implementation(get_backend(name), "sum") for name in ("reference", "cpu"))
    wide = uniform(1, 2, 300, 500).to(dtype)
    every = [0, 1, 2]
    for x, dim in ((wide, [1, 2]), (wide[:, ::2, ::2], every), (wide.transpose(0, 2), every), (wide[:, :, 1:], [1, 2])):
        expected = reference(x, dim, False, "v1")
        for threads in (1, 2, 7):
            repdl.set_num_threads(threads)
            what = f"{tuple(x.shape)} of strides {x.stride()} over {dim} with {threads} threads"
            assert_same_bits(ours(x, dim, False, "v1"), expected, what)
