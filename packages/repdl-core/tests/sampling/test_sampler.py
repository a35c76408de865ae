"""repdl.random.sampler: an order of seed and epoch alone, and going on in the middle of an epoch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from repdl import random
from repdl.errors import ArgumentError, OutOfRangeError, RepDLError, ShapeError, UnsupportedError
from repdl.random import Generator, sampler

DATA = TensorDataset(torch.arange(23))


def batches(order: Any, workers: int = 0) -> list[list[int]]:
    loader = DataLoader(DATA, 4, sampler=order, num_workers=workers)
    return [batch.tolist() for (batch,) in loader]


def test_sampler__order_of_seed_and_epoch() -> None:
    order = sampler(DATA, 5)
    assert len(order) == 23 and isinstance(order, torch.utils.data.Sampler)
    first = list(order)
    assert sorted(first) == list(range(23)) and list(order) == first != list(range(23))
    assert first == random.randperm(23, generator=Generator(5, stream=2**47)).tolist()
    order.set_epoch(1)
    second = list(order)
    assert second == random.randperm(23, generator=Generator(5, stream=2**47 + 1)).tolist() != first
    random.rand(3), torch.manual_seed(1)
    order.set_epoch(0)
    assert list(order) == first != list(sampler(DATA, 6))
    assert list(sampler(DATA, 5, shuffle=False)) == list(range(23)) and list(sampler([], 5)) == []


def test_sampler__workers_do_not_matter() -> None:
    assert batches(sampler(DATA, 5)) == batches(sampler(DATA, 5), workers=2)


@pytest.mark.parametrize("workers", [0, 2])
def test_sampler__goes_on_in_the_middle_of_an_epoch(workers: int) -> None:
    order = sampler(DATA, 5)
    order.set_epoch(3)
    whole = batches(order)
    seen: list[list[int]] = []
    for (batch,) in DataLoader(DATA, 4, sampler=order, num_workers=workers):
        seen.append(batch.tolist())
        if len(seen) == 2:
            break
    state = order.state_dict(seen=8)
    if workers:
        with pytest.raises(UnsupportedError, match="takes examples in advance; expected the number"):
            order.state_dict()
    else:
        assert state == order.state_dict()
    other = sampler(DATA, 5)
    other.load_state_dict(copy.deepcopy(state))
    assert other.state_dict() == state
    assert seen + batches(other, workers) == whole and batches(other) == whole


CALLS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "set_epoch": lambda order, state: order.set_epoch(1),
    "load_state_dict": lambda order, state: order.load_state_dict(state),
    "all": lambda order, state: list(order),
    "two": lambda order, state: [next(given) for given in [iter(order)] for _ in range(2)],
}


def test_sampler__any_calls_one_after_the_other() -> None:
    """Each decides where the next iteration begins, and what was given out, whatever was called before."""
    orders: list[list[int]] = []
    for epoch in range(3):
        order = sampler(DATA, 5)
        order.set_epoch(epoch)
        orders.append(order.order())
    state = {**sampler(DATA, 5).state_dict(seen=8), "epoch": 2}
    for calls in product(CALLS, repeat=3):
        order, epoch, begin, given = sampler(DATA, 5), 0, 0, 0
        for call in calls:
            CALLS[call](order, state)
            if call == "set_epoch":
                epoch, begin, given = 1, 0, 0
            elif call == "load_state_dict":
                epoch, begin, given = 2, 8, 8
            else:
                begin, given = 0, begin + 2 if call == "two" else 23
            assert order.state_dict()["seen"] == given, calls
        assert order.epoch == epoch and list(order) == orders[epoch][begin:], calls


def test_sampler__bad_arguments_change_nothing() -> None:
    order = sampler(DATA, 5)
    order.set_epoch(2)
    state = order.state_dict()
    calls: list[tuple[Any, type[RepDLError], str]] = [
        (lambda: sampler(DATA, -1), OutOfRangeError, "seed is -1"),
        (lambda: sampler(iter(DATA), 1), ArgumentError, "expected an object with a length"),  # type: ignore[arg-type]
        (lambda: sampler(DATA, 1, shuffle=1), ArgumentError, "expected True or False"),  # type: ignore[arg-type]
        (lambda: order.set_epoch(-1), OutOfRangeError, "epoch is -1"),
        (lambda: order.state_dict(24), OutOfRangeError, "seen is 24, expected 0 to 23"),
        (lambda: order.load_state_dict({**state, "seed": 6}), ShapeError, "seed is 6, expected 5"),
        (lambda: order.load_state_dict({**state, "length": 6}), ShapeError, "length is 6, expected 23"),
        (lambda: order.load_state_dict({**state, "shuffle": False}), ShapeError, "shuffle is False"),
        (lambda: order.load_state_dict({**state, "seen": -1}), OutOfRangeError, "seen is -1"),
        (lambda: order.load_state_dict({**state, "epoch": 2**47}), OutOfRangeError, "epoch is"),
        (lambda: order.load_state_dict({"seed": 5}), ShapeError, "keys are"),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()
        assert order.state_dict() == state
