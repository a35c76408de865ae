"""Calls that are repeated keep nothing: no memory, no tensor, no reference, whatever they come to.

Memory is what Python has allocated; under a sanitizer (test_kit_sanitized.py) it is all of the process, torch's too.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import repdl
from repdl import callcache, ops, registry
from repdl.callcache import c_extension
from repdl.callcache.plan import Outcome, Plan, Result, Span, Step
from repdl.settings.generation import GENERATION
from repdl_cpu.isa import native

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")

REPEATS, ROUNDS = 40, 20  # the first ones fill caches
# Of the sanitizer, where it is there.
_all_memory = getattr(ctypes.CDLL(None), "__sanitizer_get_current_allocated_bytes", None)


def memory() -> float:
    """Blocks of Python's; where all bytes of the process are known, in the smallest ones that there are."""
    if _all_memory is None:
        return sys.getallocatedblocks()
    _all_memory.restype = ctypes.c_size_t
    return int(_all_memory()) / 16


class Paths:
    """Calls by every way that the kit has; the names of those that raise begin with "raises"."""

    def __init__(self) -> None:
        self.a, self.b = torch.rand(4, 3) + 1, torch.rand(4, 3) + 1
        self.grad = torch.rand(4, 3, requires_grad=True)
        self.out = torch.zeros(4, 3)
        self.classes, self.wrong = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 7, 0])
        self.params, self.grads, self.buffers = ([torch.rand(4, 3) for _ in range(2)] for _ in range(3))
        self.step: Any = registry.functions.sgd_step
        self.dropout: Any = registry.functions.dropout
        self.position, self.negative = torch.zeros(3, dtype=torch.int64), torch.tensor([0, -1, 0])
        self.mean, self.variance, self.images = torch.zeros(3), torch.ones(3), torch.rand(2, 3, 4, 4)
        self.with_lists: Any = callcache.cache_variable_scalars(lambda t, numbers: ops.mul(t, numbers[0]))
        self.several: Any = callcache.cache_calls(lambda t, dim: ops.max(t, dim))
        self.identity, self.cell = lambda *args, **kwargs: args[0], [object()]
        self.identities: Any = c_extension().Call(self.identity, lambda *args: None, self.cell)
        self.identities(self.a)
        self.n = 0
        R = c_extension().Recording
        kernel = native().kernels.get(("fails", "float32"))
        self.failing: Any = None
        if kernel is not None:
            step = Step(kernel, (self.a,), (self.b,), (Span(0), Span(1)), (), 1, 0)
            made = R(Plan((step,), outputs=(torch.empty(4, 3),), results=(Result("new", 0),)))
            self.failing = c_extension().Call(self.identity, lambda *args: Outcome(None, made), self.cell)
            self.failing(self.a), self.failing(self.a)  # which is recorded

    def number(self) -> float:
        self.n += 1
        return 1.5 + self.n % 7

    def everything(self) -> dict[str, Callable[[], Any]]:
        a, b, grad = self.a, self.b, self.grad
        paths: dict[str, Callable[[], Any]] = {
            "a number": lambda: ops.mul(a, 2.5),
            "numbers": lambda: ops.mul(a, self.number()),
            "numbers in a list": lambda: self.with_lists(a, [1.0]),
            "two tensors": lambda: ops.add(a, b),
            "one twice": lambda: ops.mul(a, a),
            "named": lambda: ops.add(input=a, other=b, alpha=2.0),
            "workspace": lambda: ops.amax(a, -1),
            "scratch": lambda: ops.layer_norm(ops.neg(a), [3]),
            "a gradient": lambda: torch.autograd.grad(ops.mul(grad, b).sum(), grad),
            "a gradient of several outputs": lambda: torch.autograd.grad(ops.max(grad, 1)[0].sum(), grad),
            "a gradient that is not asked for": lambda: ops.mul(grad, b),
            "a gradient in another shape": lambda: torch.autograd.grad(ops.softmax(grad, 1)[0, 0], grad),
            "second derivative": self.twice,
            "in place": lambda: ops.relu(self.out, inplace=True),
            "into running statistics": lambda: ops.batch_norm(self.images, self.mean, self.variance, training=True),
            "a draw of a position": lambda: self.dropout(a, self.position, 0.5),
            "a draw": lambda: ops.dropout(a, 0.5),
            "a step": lambda: self.step(
                self.params, self.grads, self.buffers, 0.1, 0.01, 0.9, 0.0, False, False, False
            ),
            "classes": lambda: ops.cross_entropy(a, self.classes),
            "several results": lambda: self.several(a, 1),
            "shortcuts": self.shortcuts,
            "is_variable": lambda: c_extension().Call.is_variable(2.5),
            "a call": lambda: c_extension().Call(self.identity, self.identity, self.cell, True)(a),
            "raises, wrong classes": lambda: ops.cross_entropy(a, self.wrong),
            "raises, wrong shapes": lambda: ops.add(a, a.t()),
            "raises, shared memory": lambda: self.step(
                [a], [a], [a], 0.1, 0.01, 0.9, 0.0, False, False, False
            ),
            "raises, a position": lambda: self.dropout(a, self.negative, 0.5),
            "raises, a kernel's arguments": lambda: native().kernels["neg", "float32"]((3,), (a,), (1, 0, 0), a),
            "raises, a kernel's list": lambda: native().kernels["neg", "float32"](([a, 3],), (a,), (1, 0, 0), a),
            "raises, a recording": lambda: c_extension().Recording(Plan(steps=(1,))),
            "raises, what records it": lambda: self.identities(a),
            "raises, forward": lambda: c_extension().Recording.forward(self, a),
            "raises, backward": lambda: c_extension().Recording.backward(self, a),
        }  # fmt: skip
        if self.failing is not None:
            kernels = native().kernels
            paths["raises, in a recorded kernel"] = lambda: self.failing(a)
            paths["raises, in a kernel"] = lambda: kernels["fails", "float32"]((a,), (b,), (1, 0, 0), a)
            paths["raises, what no exception is"] = lambda: kernels["throws", "float32"]((a,), (b,), (1, 0, 0), a)
            paths["raises, for workspace"] = lambda: kernels["amax", "float32"]((a,), (b[:, 0],), (1, 0, 0), None)
        return paths

    def twice(self) -> Any:
        (first,) = torch.autograd.grad(ops.mul(self.grad, self.grad).sum(), self.grad, create_graph=True)
        return torch.autograd.grad(first.sum(), self.grad)

    def shortcuts(self) -> Any:
        with torch.no_grad():
            return self.a.add(self.b), self.out.add_(1.5), self.a * self.number(), self.a.mul(self.grad)

    def objects(self) -> list[Any]:
        """What calls are made of, and what is there once in a process."""
        C = c_extension()
        own = [v for v in vars(self).values() if not isinstance(v, int)]
        lists = [item for v in own if isinstance(v, list) for item in v]
        single = [None, True, False, 0, 1, "v1", torch.float32, torch.int64, torch.strided]
        functions = [ops.mul, ops.add, self.step.__wrapped__, callcache.call._record, self.cell[0], GENERATION.cell[0]]
        return [*own, *lists, *single, *functions, C.Call, C.Recording, C.GuardedFunction, C.Shortcut, torch.Tensor]


def outcome(call: Callable[[], Any]) -> bool:
    """Whether it raises."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError, AttributeError, repdl.RepDLError):
        return True
    return False


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def growth(call: Callable[[], Any], times: int) -> float:
    """How many blocks of memory more there are after some calls."""
    before = memory()
    for _ in range(times):
        outcome(call)
    gc.collect()
    return memory() - before


def kept(call: Callable[[], Any], objects: list[Any]) -> list[str]:
    """What each of some calls keeps: what grows from one round of them to the next, again and again."""
    for _ in range(8):
        outcome(call)
    found: list[str] = []
    for _ in range(ROUNDS):
        gc.collect()
        counts = array("q", map(sys.getrefcount, objects))  # which holds no small integers
        grown = growth(call, REPEATS)
        more = array("q", (now - count for now, count in zip(map(sys.getrefcount, objects), counts)))
        found = [f"{n} references to {str(o)[:60]}" for o, n in zip(objects, more) if n >= REPEATS // 2]
        if grown >= REPEATS // 2 and (grown := growth(call, 10 * REPEATS)) >= 10 * REPEATS // 2:  # not once a round
            found.append(f"{grown} blocks of memory")
        if not found:
            break
    return found


@pytest.fixture(autouse=True)
def _few_to_collect() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("records", [False, True], ids=["replayed", "recorded"])
def test_kit__calls_keep_nothing(records: bool) -> None:
    """Replayed calls; then calls that are each the first, the recorded and the replayed one."""
    repdl.enable()
    try:
        with one_thread():
            paths = Paths()
            leaks = {}
            for name, call in paths.everything().items():

                def run(call: Callable[[], Any] = call) -> None:
                    if records:
                        GENERATION.advance()
                        outcome(call)
                        outcome(call)
                    call()

                assert outcome(run) is name.startswith("raises"), name
                found = kept(run, paths.objects())
                if found:
                    leaks[name] = found
            assert not leaks, "\n".join(f"{name}: {found}" for name, found in leaks.items())
    finally:
        repdl.disable()
