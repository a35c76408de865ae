"""Compiled code is called with numbers that Python takes for equal: 0.0 and -0.0, and each NaN."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.compiling.backend import is_supported
from repdl.settings.generation import GENERATION

pytestmark = pytest.mark.skipif(not is_supported(), reason="this torch lacks what the backend needs")

Tensor = torch.Tensor
(MINUS_NAN,) = struct.unpack("=d", struct.pack("=Q", 0xFFF8000000000000))
NUMBERS = 0.0, -0.0, 0.0, 1.0, -0.0, float("nan"), 2.0, 0.0, -0.0, MINUS_NAN, float("nan"), 3.0, -0.0
X = torch.tensor([1.0, -2.0, 0.5])


class Layer(torch.nn.Module):
    number = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.number


LAYER = Layer()


def of_attribute(x: Tensor, a: float) -> Tensor:
    LAYER.number = a
    return LAYER(x)


FUNCTIONS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "product": lambda x, a: x * a,
    "quotient": lambda x, a: x / a,
    "sign": torch.copysign,
    "constant": torch.full_like,
    "list": lambda x, a: x * [1.0, a][1],
    "negated": lambda x, a: x * -a,
    "branch": lambda x, a: x * a if a != 2 else x + a,
}


def bits(x: Tensor) -> list[int]:
    return x.view(torch.int32).tolist()


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_compiled__numbers_are_compared_by_their_bits(dynamic: bool | None) -> None:
    repdl.enable()
    for name, function in FUNCTIONS.items():
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="repdl", dynamic=dynamic)
        for turn, number in enumerate(NUMBERS):
            assert bits(compiled(X, number)) == bits(function(X, number)), (name, turn, number)
    torch._dynamo.reset()
    compiled = torch.compile(LAYER, backend="repdl", dynamic=dynamic)
    for turn, number in enumerate(NUMBERS):
        expected = bits(of_attribute(X, number))
        assert bits(compiled(X)) == expected, ("attribute", turn, number)


def test_compiled__numbers_of_ops_without_enable() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, a: ops.mul(x, a), backend="repdl", dynamic=True)
    for turn, number in enumerate(NUMBERS):
        assert bits(compiled(X, number)) == bits(ops.mul(X, number)), (turn, number)


def test_replay__numbers_are_compared_by_their_bits() -> None:
    calls: dict[str, Callable[[Tensor, float], Tensor]] = {
        "mul": ops.mul,
        "div": ops.div,
        "clamp": lambda x, a: ops.clamp(x, min=a),
        "clamp of zeros": lambda x, a: ops.clamp(x * 0.0, min=a),
        "add": lambda x, a: ops.add(x * 0.0, a),
        "pow": ops.pow,
        "threshold": lambda x, a: ops.threshold(x, 0.75, a),
        "addcmul": lambda x, a: ops.addcmul(x * 0.0, x, x, value=a),
        "in place": lambda x, a: x.clone().mul_(a),
        "lists": lambda x, a: torch._foreach_mul([x], a)[0],
        "lists of numbers": lambda x, a: torch._foreach_mul([x], [a])[0],
    }
    for enabled in (False, True):
        if enabled:
            repdl.enable()
        for name, call in calls.items():
            alone = {}
            for number in (0.0, -0.0, float("nan"), 1.5, -1.5):
                GENERATION.advance()
                alone[struct.pack("=d", number)] = bits(call(X, number))
            GENERATION.advance()
            for turn in range(5):
                for number in (0.0, -0.0, float("nan"), 1.5, -1.5):
                    assert bits(call(X, number)) == alone[struct.pack("=d", number)], (enabled, name, turn, number)
