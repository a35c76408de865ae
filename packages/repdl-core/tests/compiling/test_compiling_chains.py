"""Chains of pointwise ops in compiled graphs: the bits of what is not compiled, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

import repdl
from repdl.compiling import backend
from repdl.testing import assert_same_bits, uniform
from repdl.testing.dtypes import in_dtype

Tensor = torch.Tensor
pytestmark = pytest.mark.filterwarnings("ignore:Profiler record function")
ROWS, WIDTH = 96, 512


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The code of each graph that is compiled."""
    found: list[str] = []
    last = backend.call_fast

    def noted(module: torch.fx.GraphModule) -> None:
        found.append(module.code)
        last(module)

    monkeypatch.setattr(backend, "call_fast", noted)
    return found


def chains(code: str) -> int:
    return code.count("= repdl_compiling_chains_chain_")


def gelu_new(x: Tensor) -> Tensor:
    """As transformers writes it."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * 1.5 + x


def in_place_between(x: Tensor) -> Tensor:
    """What a chain takes is changed after the program has taken it."""
    buffer = x.detach().clone()
    y = x + buffer
    buffer.add_(1.0)
    return (y * 2.0).tanh() * buffer


def two_shapes(x: Tensor) -> Tensor:
    half = x[:, : WIDTH // 2].contiguous()
    a, b = x * 0.5, half * 0.25
    a, b = a.exp() + x, b.sigmoid() - half
    return torch.cat([a * a, b + b], 1).tanh() * 2.0 + 1.0


def residual(x: Tensor) -> Tensor:
    for _ in range(3):
        x = x + torch.softmax(x * 0.3 + 1.0, -1) * 0.1
    return x


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_new": gelu_new,
    "dropout": lambda x: F.dropout(x * 0.5 + 1.0, 0.3) * x.tanh(),
    "rms": rms,
    "in place between": in_place_between,
    "two shapes": two_shapes,
    "residual": residual,
    "where": lambda x: torch.where(x > 0.1, x * x, (x - 1.0).exp()) + x,
    "clamp": lambda x: (x.clamp(-0.5, 0.5) * 3.0).sin() / (x.abs() + 1.0),
    "halves": lambda x: (x.bfloat16() * 0.5 + 1.0).tanh() * x.bfloat16(),
}


def run(function: Callable[..., Any], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Outputs and gradients of three calls, of which the last one is repeated from a recording."""
    torch.manual_seed(3)
    found = []
    for seed in range(3):
        x = in_dtype(uniform(seed, ROWS, WIDTH), dtype).requires_grad_()
        y = function(x)
        (y * y).sum().backward()
        assert x.grad is not None
        found += [y.detach(), x.grad]
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_chains__same_bits(name: str, graphs: list[str]) -> None:
    function = FUNCTIONS[name]
    with repdl.enabled():
        expected = run(function)
        found = run(torch.compile(function, backend="repdl", fullgraph=True))
    assert_same_bits(found, expected, name)
    assert chains(graphs[0]) > 0, graphs[0]


def test_chains__an_input_that_is_changed(graphs: list[str]) -> None:
    def function(x: Tensor, state: Tensor) -> Tensor:
        y = x + state
        state.mul_(0.5)
        return (y * 2.0 + 1.0).tanh() + state

    found = []
    with repdl.enabled(), torch.no_grad():
        for call in (function, torch.compile(function, backend="repdl", fullgraph=True)):
            state = uniform(9, ROWS, WIDTH)
            found.append([*(call(uniform(seed, ROWS, WIDTH), state) for seed in range(3)), state])
    assert_same_bits(found[1], found[0])
    assert chains(graphs[0]) > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_chains__other_dtypes(dtype: torch.dtype, graphs: list[str]) -> None:
    with repdl.enabled():
        expected = run(gelu_new, dtype)
        assert_same_bits(run(torch.compile(gelu_new, backend="repdl"), dtype), expected)
    assert [chains(code) for code in graphs] == [1, 1]


def test_chains__are_not_made_of_small_or_dynamic_tensors(graphs: list[str]) -> None:
    with repdl.enabled():
        function = torch.compile(gelu_new, backend="repdl")
        for rows in (3, ROWS, ROWS + 1, ROWS + 2):  # from the second size on, it is a symbol
            x = uniform(rows, rows, WIDTH)
            assert_same_bits(function(x), gelu_new(x))
    assert sum(map(chains, graphs)) == 0


def test_chains__nothing_is_left_beside_one(graphs: list[str]) -> None:
    """No op of a chain is left beside it."""
    with repdl.enabled():
        torch.compile(gelu_new, backend="repdl")(uniform(1, ROWS, WIDTH))
    (code,) = graphs
    assert chains(code) == 1 and "repdl.mul" not in code and "repdl.tanh" not in code


UNARY = {"tanh": torch.tanh, "exp": torch.exp, "relu": torch.relu, "neg": torch.neg, "sigmoid": torch.sigmoid}
BINARY = {"add": torch.add, "mul": torch.mul, "sub": torch.sub, "maximum": torch.maximum}
WHOLE = {"softmax": lambda x: x.softmax(-1), "mean": lambda x: x - x.mean(-1, keepdim=True)}
NAMES = [*UNARY, *UNARY, *BINARY, *BINARY, *BINARY, "scale", *WHOLE]


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Ops, and the numbers of the earlier values that they take."""
    count = draw(st.integers(3, 12))
    return [(draw(st.sampled_from(NAMES)), draw(st.integers(0, n)), draw(st.integers(0, n))) for n in range(count)]


def made(program: list[tuple[str, int, int]]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        values = [x]
        for op, a, b in program:
            if op in BINARY:
                values.append(BINARY[op](values[a], values[b]))
            elif op == "scale":
                values.append(values[a] * 0.3 + 0.1)
            else:
                values.append((UNARY | WHOLE)[op](values[a]))
        return values[-1] + values[len(values) // 2]

    return function


@given(program=programs())
@settings(max_examples=8, deadline=None, derandomize=True)
def test_chains__any_graph(program: list[tuple[str, int, int]]) -> None:
    torch._dynamo.reset()
    with repdl.enabled():
        expected = run(made(program))
        assert_same_bits(run(torch.compile(made(program), backend="repdl", fullgraph=True)), expected)
