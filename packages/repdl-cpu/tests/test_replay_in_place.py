"""Ops that write their result into their first tensor, and numbers that are others at each call, run again."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

import repdl
from repdl import callcache, ops
from repdl.callcache import c_extension
from repdl.overrides.binding import in_place
from repdl.settings.generation import GENERATION
from repdl.testing.compare import assert_same_bits

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")


def x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) + 3


CALLS: dict[str, Callable[[Callable[..., Any], torch.Tensor, float], Any]] = {
    "add": lambda call, t, n: call(t, x(4, 5), alpha=n),
    "mul": lambda call, t, n: call(t, n),
    "div": lambda call, t, n: call(t, x(5)),
    "lerp": lambda call, t, n: call(t, x(4, 5), n),
    "addcmul": lambda call, t, n: call(t, t, x(4, 1), value=n),
    "addcdiv": lambda call, t, n: call(t, x(4, 5), x(4, 5), value=-n),
    "sqrt": lambda call, t, n: call(t),
    "cos": lambda call, t, n: call(t),
}


@pytest.mark.parametrize("name", CALLS)
def test_replay__in_place(name: str) -> None:
    function = getattr(ops, name)
    call: Any = in_place(function)
    for number in (0.3, 0.7, 0.11, 1.0, 0.0, 1e300, -0.25, 0.9):
        given = x(4, 5)
        expected = given.clone()
        torch.manual_seed(0)
        assert CALLS[name](call, given, number) is given
        torch.manual_seed(0)
        expected = CALLS[name](function.__wrapped__, expected, number)
        assert_same_bits(given, expected, f"{name} {number}")
        assert given._version == 1
    assert call.recordings >= 1
    with torch.no_grad():
        leaf = x(4, 5).requires_grad_()
        before = leaf.detach().clone()
        for _ in range(4):
            torch.manual_seed(0)
            CALLS[name](call, leaf, 0.3)
            torch.manual_seed(0)
            before = CALLS[name](function.__wrapped__, before, 0.3)
            assert_same_bits(leaf.detach(), before, name)


@pytest.mark.parametrize("name", ["cos", "tan", "exp"])
def test_replay__in_place_of_many_elements(name: str) -> None:
    """By vectors, and by two paths (tan), of which the second one reads again what the first one has not decided."""
    function = getattr(ops, name)
    call: Any = in_place(function)
    for n in (255, 256, 257, 5000, 200_000):
        for _ in range(3):
            given = torch.randn(n) * torch.tensor([0.1, 3.0, 1e6]).repeat_interleave(-(-n // 3))[:n]
            expected = function(given)
            call(given)
            assert_same_bits(given, expected, f"{name} of {n}")


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "rows": lambda: torch.zeros(3, 4),
    "columns": lambda: torch.zeros(4, 3).t(),
    "rows of more": lambda: torch.zeros(3, 6)[:, :4],
    "columns of more": lambda: torch.zeros(4, 6).t()[:3],
    "every second": lambda: torch.zeros(6, 4)[::2],
    "every second column": lambda: torch.zeros(3, 8)[:, ::2],
    "at an offset": lambda: torch.zeros(20)[5:17].view(3, 4),
}
"""Tensors of one shape: their strides, and whether all of their memory is theirs."""


@pytest.mark.parametrize("name", ["add", "mul", "addcmul", "sqrt", "atan2"])
def test_replay__in_place_of_any_layouts(name: str) -> None:
    """All pairs of layouts, first recorded and then repeated; what lies between the elements stays."""
    function = getattr(ops, name)
    others = {"add": 1, "mul": 1, "addcmul": 2, "sqrt": 0, "atan2": 1}[name]
    for of_target, target in LAYOUTS.items():
        for of_other, other in LAYOUTS.items():
            call: Any = in_place(function)
            for turn in range(4):
                given = target()
                memory = given._base if given._base is not None else given
                memory.copy_(torch.rand(memory.shape) + turn)
                values = [other().copy_(torch.rand(3, 4) + 0.5) for _ in range(others)]
                before, wanted = memory.clone(), function.__wrapped__(given.clone(), *values)
                call(given, *values)
                assert_same_bits(given.clone(), wanted, f"{name} of {of_target} with {of_other}, call {turn}")
                given.copy_(torch.as_strided(before, given.shape, given.stride(), given.storage_offset()))
                assert torch.equal(memory, before), f"{name} of {of_target} with {of_other}, call {turn}: neighbours"


def test_replay__in_place_looks_where_memory_lies() -> None:
    call: Any = in_place(ops.mul)
    memory = x(40)
    for start in (20, 20, 20, 5, 1, 0, 10):
        given = memory.clone()
        expected = given.clone()
        expected[:10] = ops.mul(given[:10], given[start : start + 10].clone())
        call(given[:10], given[start : start + 10])
        assert_same_bits(given, expected, f"from {start} on")
    wide = torch.ones(3).expand(4, 3)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="more than one element"):
            call(wide, x(4, 3))
        with pytest.raises(RuntimeError, match="doesn't match"):
            call(x(3), x(4, 3))
        with pytest.raises(RuntimeError, match="can't be cast"):
            call(torch.arange(3), x(3))


def test_replay__in_place_of_a_tensor_of_inference_mode() -> None:
    call: Any = in_place(ops.mul)
    with torch.inference_mode():
        given = torch.ones(3)
    for _ in range(4):
        call(torch.ones(3), 2.0)
        with torch.inference_mode():
            call(given, 2.0)
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            call(given, 2.0)
    assert call.recordings


@pytest.mark.parametrize("differentiates", [False, True])
def test_replay__running_statistics_of_inference_mode(differentiates: bool) -> None:
    with torch.inference_mode():
        frozen = torch.zeros(3)
    input = x(4, 3).requires_grad_(differentiates)
    for statistics in ((torch.zeros(3), frozen), (frozen, torch.zeros(3))):
        for _ in range(4):
            ops.batch_norm(input, torch.zeros(3), torch.ones(3), training=True)
            with pytest.raises(repdl.RepDLError, match="is an inference tensor"):
                ops.batch_norm(input, *statistics, training=True)
    call: Any = ops.batch_norm
    assert call.recordings


@pytest.mark.parametrize("differentiates", [False, True])
def test_replay__running_statistics_of_inference_mode_by_name(differentiates: bool) -> None:
    """A call has its tensors in another order than the op."""
    with torch.inference_mode():
        frozen = torch.zeros(3)
    input = x(4, 3).requires_grad_(differentiates)
    names = "weight", "bias", "running_var", "running_mean", "input"
    for order in (names, names[::-1]):
        for given in (torch.zeros(3), torch.zeros(3), frozen) * 2:
            named = dict(zip(names, (torch.ones(3), torch.zeros(3), torch.ones(3), given, input)))
            error = pytest.raises(repdl.RepDLError, match="is an inference") if given is frozen else nullcontext()
            with error:
                ops.batch_norm(**{name: named[name] for name in order}, training=True)


def test_replay__in_place_with_gradients() -> None:
    call: Any = in_place(ops.mul)
    for _ in range(4):
        a, b = x(6).requires_grad_(), x(6).requires_grad_()
        y = ops.add(a, 0.0)
        call(y, b)
        ops.sum(y).backward()
        assert_same_bits(a.grad, b.detach(), "gradient")
        with pytest.raises(RuntimeError, match="leaf"):
            call(a, b)


def test_replay__numbers_are_free() -> None:
    function: Any = ops.mul
    GENERATION.advance()
    random.seed(0)
    given = torch.ones(7)
    numbers = [random.choice((-1, 1)) * random.random() * 2.0 ** random.randint(-130, 127) for _ in range(3000)]
    edges = [2.0**-126, 2.0**-127, 2.0**127, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 1 - 2.0**-25, 2.0**24 + 1]
    for number in (*numbers, *edges, *(-e for e in edges)):
        with np.errstate(over="ignore"):
            expected = float(np.float32(number))
        assert function(given, number)[3].item() == expected, number
    assert function.recordings < 100  # of positive and of negative ones, and the few beyond


@pytest.mark.parametrize("first", [0.61 + n / 64 for n in range(4)])
def test_replay__first_number_is_free(first: float) -> None:
    """Whatever it is: where numbers go is found out with others."""
    GENERATION.advance()
    given = torch.linspace(0, 2, 9)
    for low in (first, first, first, 0.3):
        assert_same_bits(ops.mul(torch.ones(1), low), torch.tensor([low]), f"mul {low}")
        for high in (first + 1 / 64, 1.25):
            assert_same_bits(ops.clamp(given, low, high), given.clamp(low, high), f"clamp {low} {high}")


def test_replay__numbers_that_are_computed_with() -> None:
    @callcache.cache_variable_scalars
    def halved(input: torch.Tensor, number: float) -> torch.Tensor:
        return ops.mul(input, number / 2)

    given = x(5)
    for number in (0.3, 0.7, 0.4, 0.9):
        for _ in range(4):
            assert_same_bits(halved(given, number), ops.mul(given, number / 2), f"{number}")


def test_replay__in_place_of_numbers_that_are_compared() -> None:
    given = torch.linspace(-1, 1, 9)
    expected = ops.hardtanh(given, -0.5, -0.25)
    with repdl.enabled():
        for _ in range(4):
            assert_same_bits(torch.nn.functional.hardtanh_(given.clone(), -0.5, -0.25), expected, "hardtanh_")
        for _ in range(4):
            with pytest.raises(repdl.errors.ShapeError, match=r"min_val is -0.25, expected at most max_val = -0.5"):
                torch.nn.functional.hardtanh_(given.clone(), -0.25, -0.5)


def each(op: Any) -> Any:
    """A call that has an op in place on each tensor but the last one."""

    def call(*tensors: torch.Tensor) -> None:
        for tensor in tensors[:-1]:
            op(tensor, tensors[-1])

    return callcache.cache_foreach_in_place(call)


def test_replay__each_in_place() -> None:
    call = each(in_place(ops.mul))
    for n in range(4):
        given, factor = [x(4, 5), x(7), x(())], x(())
        expected = [ops.mul(t, factor) for t in given]
        call(*given, factor)
        for a, e in zip(given, expected):
            assert_same_bits(a, e, str(n))
            assert a._version == 1
    assert call.recordings == 1


def test_replay__each_in_place_looks_where_memory_lies() -> None:
    call = each(in_place(ops.mul))
    for _ in range(3):
        call(x(4), x(4), x(4))
    assert call.recordings == 1
    for places in ((0, 2, 10), (0, 10, 2), (10, 0, 2), (0, 0, 10), (0, 10, 0)):
        memory = x(20)
        expected = memory.clone()
        call(*(memory[i : i + 4] for i in places))
        call.__wrapped__(*(expected[i : i + 4] for i in places))
        assert_same_bits(memory, expected, str(places))
    for _ in range(4):  # one tensor twice
        twice, once, factor = x(4), x(4), x(4)
        expected = ops.mul(ops.mul(twice, factor), factor)
        call(twice, once, twice, factor)
        assert_same_bits(twice, expected, "twice")


def test_replay__each_in_place_of_what_is_seen_alone() -> None:
    """Lists of which torch computes some, or all: nothing may be left out of a call that is run again."""
    with repdl.enabled():
        for _ in range(5):
            floats, integers = [x(3), x(4)], [torch.tensor([2, 3]), torch.tensor([5])]
            expected = [ops.mul(t, 2.0) for t in floats]
            mixed = [floats[0], integers[0], floats[1], integers[1]]
            torch._foreach_mul_(mixed, 2)
            for a, e in zip(floats, expected):
                assert_same_bits(a, e, "mixed")
            assert [t.tolist() for t in integers] == [[4, 6], [10]]
            torch._foreach_neg_(floats)
            assert_same_bits(floats[0], -expected[0], "neg")
            torch._foreach_zero_(mixed)
            assert not any(t.any() for t in mixed)
            torch._foreach_add_(mixed, 1)
            assert all((t == 1).all() for t in mixed)


def test_replay__each_in_place_of_a_tensor_of_inference_mode() -> None:
    call = each(in_place(ops.mul))
    with torch.inference_mode():
        frozen = x(3)
    for _ in range(4):
        call(x(3), x(3), x(3))
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            call(x(3), frozen, x(3))
    assert call.recordings == 1


def test_replay__each_in_place_with_gradients() -> None:
    call = each(in_place(ops.mul))
    for _ in range(4):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            call(x(3).requires_grad_(), x(3))
        given, factor = x(3), x(3).requires_grad_()
        call(given, factor)
        given.sum().backward()
        assert factor.grad is not None
        with torch.no_grad():
            call(factor, x(3))


def test_replay__enabled_optimizers_write_in_place() -> None:
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    addresses = [p.data_ptr() for p in model.parameters()]
    with repdl.enabled():
        for _ in range(5):
            optimizer.zero_grad()
            model(x(2, 5)).sum().backward()
            optimizer.step()
    assert addresses == [p.data_ptr() for p in model.parameters()]
