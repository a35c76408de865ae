"""Calls that draw from the process's generator and are run again: where it goes on is found out at each of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl import callcache, ops, random, registry
from repdl.callcache import c_extension
from repdl.errors import OutOfRangeError, UnsupportedError
from repdl.generators import generator as generators

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")

MOST = generators.NUMBERS - 1


def heads(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def masked() -> torch.Tensor:
    return torch.randn(2, 1, 12, 15)


CALLS: dict[str, tuple[Callable[..., Any], Callable[[], list[torch.Tensor]], int]] = {
    "dropout": (lambda x: ops.dropout(x, 0.3), lambda: heads((5, 7)), 35),
    "dropout of columns": (lambda x: ops.dropout(x.T, 0.3), lambda: heads((5, 7)), 35),
    "attention": (
        lambda *qkv: ops.scaled_dot_product_attention(*qkv, dropout_p=0.2),
        lambda: heads((2, 3, 12, 8), (2, 3, 15, 8), (2, 3, 15, 4)),
        2 * 3 * 12 * 15,
    ),
    "attention with a bias": (
        lambda q, k, v, bias: ops.scaled_dot_product_attention(q, k, v, bias, 0.2),
        lambda: [*heads((2, 3, 12, 8), (2, 3, 15, 8), (2, 3, 15, 4)), masked().requires_grad_()],
        2 * 3 * 12 * 15,
    ),
}


def results(function: Callable[..., Any], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The output and the gradients."""
    output = function(*tensors)
    return [output, *torch.autograd.grad(output, tensors, torch.linspace(-1, 1, output.numel()).view_as(output))]


@pytest.mark.parametrize("name", CALLS)
def test_replay__draws(name: str) -> None:
    function, make, count = CALLS[name]
    torch.manual_seed(0)
    tensors = make()
    op = ops.dropout if "dropout" in name else ops.scaled_dot_product_attention
    random.manual_seed(5)
    actual = [results(function, tensors) for _ in range(5)]
    assert op.recordings > 0  # type: ignore[attr-defined]
    assert random.default_generator.offset == 5 * count
    random.manual_seed(5)
    with repdl.use_backend("reference"):  # which replays nothing
        expected = [results(function, tensors) for _ in range(5)]
    for before, one, other in zip([[torch.tensor(0)], *actual], actual, expected):
        assert all(torch.equal(a, e) for a, e in zip(one, other))
        assert not torch.equal(before[0], one[0])
    with torch.no_grad():
        random.manual_seed(5)
        assert all(torch.equal(function(*tensors), e) for e, *_ in expected)


def test_replay__draws_of_torchs_generator() -> None:
    x = torch.randn(4, 6)
    with repdl.enabled():
        torch.manual_seed(3)
        expected = [F.dropout(x, 0.3) for _ in range(2)]
        state = torch.get_rng_state()
        later = [F.dropout(x, 0.3) for _ in range(3)]
        torch.set_rng_state(state)
        assert all(torch.equal(F.dropout(x, 0.3), e) for e in later)
        torch.manual_seed(3)
        assert all(torch.equal(F.dropout(x, 0.3), e) for e in expected)
        with torch.random.fork_rng():
            F.dropout(x, 0.3)
        assert torch.equal(F.dropout(x, 0.3), later[0])
    numbers = random.Generator(3)
    assert all(torch.equal(ops.dropout(x, 0.3, generator=numbers), e) for e in (*expected, *later))


def test_replay__what_a_generator_refuses() -> None:
    x = torch.randn(6)
    for _ in range(3):
        ops.dropout(x)
    random.default_generator.set_state(torch.tensor([1, 0, MOST - 5, 0]))
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match="count is 6, expected 0 to 5"):
            ops.dropout(x)
    assert random.default_generator.offset == MOST - 5
    random.manual_seed(0)

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return ops.dropout(grad)

    with pytest.raises(UnsupportedError, match="a draw during a backward pass"):
        Again.apply(x.clone().requires_grad_()).backward(x)  # type: ignore[no-untyped-call]
    with pytest.raises(UnsupportedError, match="under torch.vmap"):
        torch.func.vmap(ops.dropout)(torch.randn(2, 6))
    with pytest.raises(OutOfRangeError, match="p is 2.0"):
        ops.dropout(x, 2.0)
    assert random.default_generator.offset == 0


def test_replay__a_generator_that_is_given_is_the_one_that_goes_on() -> None:
    x, numbers = torch.randn(6), random.Generator(4)
    random.manual_seed(0)
    given = [ops.dropout(x, generator=numbers) for _ in range(4)]
    assert numbers.offset == 24
    assert random.default_generator.offset == 0
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(given))


def test_replay__two_draws() -> None:
    @callcache.cache_calls
    def twice(x: torch.Tensor) -> torch.Tensor:
        return registry.functions.add(ops.dropout(x), ops.dropout(x, 0.2), "v1")

    x = torch.randn(4, 3)
    random.manual_seed(1)
    actual = [twice(x) for _ in range(4)]
    assert twice.recordings == 1  # type: ignore[attr-defined]
    random.manual_seed(1)
    assert all(torch.equal(twice.__wrapped__(x), a) for a in actual)  # type: ignore[attr-defined]


def even(index: torch.Tensor) -> None:
    if index.numpy().sum() % 2:
        raise OutOfRangeError("odd")


def test_replay__values_are_looked_at_before_a_draw() -> None:
    """By checks of a range and others, whether what is dropped is a tensor of the call or not."""

    def rows(x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return ops.dropout(ops.embedding(index, x))

    def rows_beside(x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return ops.mul(ops.embedding(index, x), ops.dropout(y))

    def other_values(x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        even(index)
        callcache.record_check(even, (index,), None)
        return ops.dropout(y)

    x, y, index = torch.randn(4, 3), torch.randn(2, 3), torch.tensor([1, 3])
    for call in map(callcache.cache_calls, (rows, rows_beside, other_values)):
        for _ in range(4):
            call(x, y, index)
        before = random.default_generator.offset
        with pytest.raises(OutOfRangeError):
            call(x, y, torch.tensor([1, 4]))
        assert random.default_generator.offset == before, call


def test_replay__numbers_of_a_call_that_draws_are_not_free() -> None:
    @callcache.cache_variable_scalars
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return ops.mul(ops.dropout(x), by)

    x = torch.ones(50)
    random.manual_seed(1)
    for i in range(6):
        assert float(scaled(x, 1.5 + i).max()) == 2 * (1.5 + i)
        assert random.default_generator.offset == 50 * (i + 1)  # once a call


def test_replay__threads_draw_what_no_other_does() -> None:
    x = torch.ones(64)
    random.manual_seed(2)
    found: list[torch.Tensor] = []

    def several() -> None:
        found.extend([ops.dropout(x) for _ in range(50)])

    threads = [threading.Thread(target=several) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    random.manual_seed(2)
    expected = {tuple(ops.dropout(x).tolist()) for _ in range(150)}
    assert {tuple(t.tolist()) for t in found} == expected
    assert len(expected) == 150
