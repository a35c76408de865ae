"""Steps of optimizers that are run again: for other numbers and memory too, with every check of memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl import callcache, ops, registry
from repdl.callcache import c_extension
from repdl.overrides.binding import in_place
from repdl.registry.backend import BACKENDS, get_backend
from repdl.settings.generation import GENERATION
from repdl.testing.compare import assert_same_bits

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")


def x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) + 3


def sgd(params: Any, grads: Any, buffers: Any, lr: float, momentum: float) -> None:
    registry.functions.sgd_step(params, grads, buffers, lr, 0.01, momentum, 0.0, False, False, False)


def test_replay__updates() -> None:
    function: Any = registry.functions.sgd_step
    GENERATION.advance()
    params = [x(4, 5), x(7), x(()).requires_grad_()]
    buffers = [torch.zeros(4, 5), torch.zeros(7), torch.zeros(())]
    expected_params, expected_buffers = ([t.detach().clone() for t in ts] for ts in (params, buffers))
    same = x(7)
    with torch.no_grad():
        for n in range(5):  # numbers are others at each call
            grads = [x(4, 5), same, x(())]
            sgd(params, grads, buffers, 0.1 / (n + 1), 0.9 - n / 10)
            args = 0.1 / (n + 1), 0.01, 0.9 - n / 10, 0.0, False, False, False
            function.__wrapped__(expected_params, grads, expected_buffers, *args)
            for a, e in zip((*params, *buffers), (*expected_params, *expected_buffers)):
                assert_same_bits(a.detach(), e.detach(), "updated")
                assert a._version == e._version == n + 1
        assert function.recordings == 1
        sgd(params, grads, [], 0.1, 0.0)
        for _ in range(3):
            with pytest.raises(repdl.RepDLError, match="momentum_buffers"):
                sgd(params, grads, buffers, 0.1, 0.0)
            with pytest.raises(repdl.RepDLError, match="momentum_buffers"):
                sgd(params, grads, [], 0.1, 0.9)


def test_replay__updates_look_where_memory_lies() -> None:
    def call(param: torch.Tensor, grad: torch.Tensor, buffer: torch.Tensor) -> None:
        sgd([param], [grad], [buffer], 0.1, 0.9)

    for _ in range(3):
        call(x(10), x(10), x(10))
    memory = x(40)
    before = memory.clone()
    for first, second, third in ((0, 5, 20), (0, 20, 5), (20, 0, 9), (0, 0, 20), (0, 20, 0)):
        with pytest.raises(repdl.RepDLError, match="share memory"):
            call(*(memory[i : i + 10] for i in (first, second, third)))
        assert torch.equal(memory, before)
    call(memory[:10], memory[10:20], memory[20:30])
    assert not torch.equal(memory[:10], before[:10])
    assert torch.equal(memory[10:20], before[10:20])
    for _ in range(4):  # a gradient of other strides, which is copied
        param, grad, buffer = x(4, 5), x(5, 4).t(), x(4, 5)
        expected = [t.clone() for t in (param, buffer)]
        call(param, grad, buffer)
        sgd([expected[0]], [grad.contiguous()], [expected[1]], 0.1, 0.9)
        assert_same_bits([param, buffer], expected, "copied gradient")


MANY = 150
"""Parameters: of more than 64 tensors a call has to find one again in another way."""


def steps(params: Any, grads: Any) -> list[torch.Tensor]:
    """What a step makes of copies, and of what it is of: (parameters and buffers)."""
    buffers = [torch.zeros_like(p) for p in params]
    given = [p.clone() for p in params]
    sgd(given, grads, buffers, 0.1, 0.9)
    return [*given, *buffers]


def test_replay__updates_of_many_tensors() -> None:
    function: Any = registry.functions.sgd_step
    GENERATION.advance()
    apart = [x(3) for _ in range(MANY)]
    repeated = [*apart]
    repeated[MANY - 1] = repeated[MANY - 2]  # the last gradient is the one before, behind the first 64
    early = [*apart]
    early[MANY - 1] = early[0]
    for grads in (apart, repeated, apart, early, repeated, early) * 2:
        params = [x(3) for _ in range(MANY)]
        args = 0.1, 0.01, 0.9, 0.0, False, False, False
        expected, buffers = [p.clone() for p in params], [torch.zeros_like(p) for p in params]
        function.__wrapped__(expected, grads, buffers, *args)
        assert_same_bits(steps(params, grads), [*expected, *buffers], "many")
    assert function.recordings == 3
    for place in (0, 63, 64, MANY - 1):  # a parameter and the gradient of another one share an element
        params, grads = [x(3) for _ in range(MANY)], [x(3) for _ in range(MANY)]
        memory = x(5)
        params[place], grads[MANY // 2] = memory[:3], memory[2:]
        before = [p.clone() for p in params]
        with pytest.raises(repdl.RepDLError, match="share memory"):
            sgd(params, grads, [torch.zeros(3) for _ in params], 0.1, 0.9)
        assert_same_bits(params, before, "refused")


def test_replay__more_tensors_than_a_call_keeps() -> None:
    function: Any = registry.functions.sgd_step
    GENERATION.advance()
    for count, recordings in ((2048, 1), (2049, 1)):  # of 4096 tensors and of 4098
        grads = [torch.full((1,), float(n % 7)) for n in range(count)]
        for _ in range(3):
            params = [torch.ones(1) for _ in range(count)]
            registry.functions.sgd_step(params, grads, [], 0.5, 0.0, 0.0, 0.0, False, False, False)
            assert [p.item() for p in params] == [1 - n % 7 / 2 for n in range(count)]
        assert function.recordings == recordings


@pytest.fixture(params=["cpu", "reference"])
def stepping(request: pytest.FixtureRequest) -> Iterator[None]:
    """sgd_step by a kernel, or in Python, which leaves no step in a trace."""
    registry.implement("sgd_step", "cpu", BACKENDS.kernels(get_backend(request.param))["sgd_step"])
    yield
    BACKENDS.forget("sgd_step")


@pytest.mark.usefixtures("stepping")
@pytest.mark.parametrize("inference", [False, True])
def test_replay__calls_that_also_change_another_tensor(inference: bool) -> None:
    """In inference mode its version does not tell of it."""

    def step(param: torch.Tensor, grad: torch.Tensor) -> None:
        registry.functions.sgd_step([param], [grad], [], 0.5, 0.0, 0.0, 0.0, False, False, False)

    def doubled(input: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
        step(param, input)
        return ops.mul(input, 2.0)

    @callcache.cache_calls
    def own(input: torch.Tensor) -> torch.Tensor:
        output = ops.mul(input, 2.0)
        step(output, input)
        return output

    calls: list[Any] = [callcache.cache_calls(doubled), in_place(doubled)]
    with torch.inference_mode(inference):
        for n in range(4):
            for call in calls:
                param = torch.ones(3)
                output = call(torch.full((3,), float(n)), param)
                assert (output.tolist(), param.tolist()) == ([2.0 * n] * 3, [1 - n / 2] * 3), (call, n)
            assert own(torch.full((3,), float(n))).tolist() == [1.5 * n] * 3, n
    assert [call.recordings for call in (*calls, own)] == [0, 0, 0]
