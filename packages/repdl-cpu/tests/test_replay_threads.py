"""Calls of several threads of Python at once: each has the bits that it has alone, whatever the others record or clear.

A Python without a global lock runs them at the same time (`PYTHON_GIL=0` where another package would bring it back),
every other one in turns, which are short here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

import repdl
import repdl.optim
from repdl import ops
from repdl.callcache import c_extension
from repdl.settings.generation import GENERATION
from repdl.testing import assert_same_bits, uniform

THREADS = 4
pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")


@pytest.fixture(autouse=True)
def _short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], None], beside: Callable[[], None] | None = None) -> None:
    """work(i) on threads that start together, while `beside` is called again and again; what one raises, this does."""
    raised: list[BaseException] = []
    start, ended = threading.Barrier(THREADS + 1), threading.Event()

    def run(i: int) -> None:
        start.wait()
        try:
            work(i)
        except BaseException as error:
            raised.append(error)

    workers = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for worker in workers:
        worker.start()

    def disturb() -> None:
        while beside is not None and not ended.wait(1e-4):
            beside()

    other = threading.Thread(target=disturb)
    other.start()
    start.wait()
    for worker in workers:
        worker.join()
    ended.set()
    other.join()
    if raised:
        raise raised[0]


def sizes(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(uniform(n, n + 3, 8).clone(), uniform(n + 1, 8, 5).clone()) for n in range(count)]


@pytest.mark.parametrize("settings", ["stay", "change"])
def test_threads__one_function(settings: str) -> None:
    given = sizes(40)
    expected = [ops.mm(a, b) for a, b in given]
    GENERATION.advance()

    def work(i: int) -> None:
        for turn in range(30):
            for n in range(len(given)):
                which = (n * 7 + i + turn) % len(given)
                assert_same_bits(ops.mm(*given[which]), expected[which], f"mm {which}")

    at_once(work, GENERATION.advance if settings == "change" else None)


def test_threads__more_signatures_than_are_kept() -> None:
    def work(i: int) -> None:
        for n in range(1, 2600):
            a = torch.ones(n)
            assert ops.add(a, a.clone()).shape == (n,)

    at_once(work)
    assert ops.add.recordings <= 4096  # type: ignore[attr-defined]


def test_threads__a_scope_of_one() -> None:
    a = uniform(1, 5000).clone()
    expected = {"v1": ops.sum(a)}
    with repdl.use_contract("sequential"):
        expected["sequential"] = ops.sum(a)
    assert not torch.equal(*expected.values())

    def work(i: int) -> None:
        for _ in range(300):
            if i % 2:
                with repdl.use_contract("sequential"):
                    assert_same_bits(ops.sum(a), expected["sequential"])
            else:
                assert_same_bits(ops.sum(a), expected["v1"])

    at_once(work)


def test_threads__a_list_that_changes() -> None:
    """A call computes with one of its values."""
    a = uniform(1, 6, 40).clone()
    dims, expected = [0], {(40,): ops.sum(a, 0), (6,): ops.sum(a, 1)}

    def change() -> None:
        dims[0] = 1 - dims[0]

    def work(i: int) -> None:
        for _ in range(2000):
            total = ops.sum(a, dims)
            assert_same_bits(total, expected[tuple(total.shape)])

    at_once(work, change)


def trained(seed: int) -> str:
    parameters = [
        (uniform(seed + n, *shape) - 0.5).requires_grad_() for n, shape in enumerate([(16, 12), (16,), (3, 16)])
    ]
    optimizer = repdl.optim.AdamW(parameters, lr=1e-2)
    generator = repdl.random.Generator(seed)
    for _ in range(25):
        hidden = ops.gelu(ops.linear(repdl.random.randn(8, 12, generator=generator), *parameters[:2]))
        loss = ops.cross_entropy(ops.linear(hidden, parameters[2]), torch.arange(8) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return repdl.digest(parameters)


def test_threads__train_models() -> None:
    expected = [trained(seed) for seed in range(THREADS)]
    assert len(set(expected)) == THREADS

    def work(i: int) -> None:
        for _ in range(3):
            assert trained(i) == expected[i]

    at_once(work)
