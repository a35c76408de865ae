"""What a function reads of the values of tensors is in its recording: a check that is repeated, or no recording."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch

from repdl import ops, registry
from repdl.callcache import THREAD, Trace, c_extension, cache_calls, call, do_not_cache, record_check
from repdl.errors import OutOfRangeError
from repdl.settings.generation import GENERATION
from repdl.testing import opinfo

pytest.importorskip("expecttest", reason="torch's database of ops needs it")
pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")

READING = ("item", "tolist", "numpy", "nonzero", "__int__", "__index__", "__float__", "__bool__", "__contains__")
MOST = 3
"""Samples of a function."""


class Reading:
    """The calls that are traced, with the methods that read values in them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.traced: list[tuple[Trace, list[str]]] = []
        self._found: list[str] = []
        for name in READING:
            patch.setattr(torch.Tensor, name, self._noting(name, getattr(torch.Tensor, name)))
        trace_call = call.trace_call

        def noted(*args: Any) -> tuple[Any, Trace]:
            self._found = []
            result, trace = trace_call(*args)
            self.traced.append((trace, self._found))
            return result, trace

        patch.setattr(call, "trace_call", noted)

    def _noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if THREAD.trace is not None:
                self._found.append(name)
            return method(tensor, *args, **kwargs)

        return read

    def unsaid(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[str]:
        """What a cached function reads although its recording would not look again."""
        GENERATION.advance()
        self.traced.clear()
        for _ in range(2):
            function(*args, **kwargs)
        return [
            n for trace, found in self.traced if trace.is_cacheable and not (trace.checks or trace.draws) for n in found
        ]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def test_reads__are_noticed(reading: Reading) -> None:
    x = torch.ones(3)

    def unsaid(function: Callable[[torch.Tensor], Any]) -> list[str]:
        return reading.unsaid(cache_calls(function), x)

    assert unsaid(lambda x: ops.mul(x, x.sum().item())) == ["item"]
    assert unsaid(lambda x: ops.mul(x, 2) if x[0] > 0 else x) == ["__bool__"]
    assert unsaid(lambda x: (do_not_cache(), ops.mul(x, 2), x.tolist())[1]) == []
    assert unsaid(lambda x: (record_check(print, (x,), None), ops.mul(x, 2), x.tolist())[1]) == []
    assert len(reading.traced) == 1


CACHED = [name for name in ops.__all__ if hasattr(getattr(ops, name), "recordings") and opinfo.entries(name)]


@pytest.mark.parametrize("part", range(4))
def test_reads__of_every_cached_function(part: int, reading: Reading) -> None:
    wrong, tried = {}, 0
    for name in CACHED[part::4]:
        function = getattr(ops, name)
        for info in opinfo.entries(name):
            for sample in opinfo.samples(info, torch.float32, MOST):
                with suppress(Exception):  # of what the function does not take
                    found = reading.unsaid(function, sample.input, *sample.args, **sample.kwargs)
                    tried += bool(reading.traced)
                    if found:
                        wrong[name] = found
    assert tried > 20 and not wrong


@pytest.mark.parametrize("name", ["scatter_add", "index_add", "embedding"])
def test_reads__an_index_out_of_range_is_seen_by_a_recording(name: str) -> None:
    x, terms, index = torch.zeros(6, 1), torch.ones(9, 1), torch.arange(9) % 6
    calls: dict[str, Callable[[torch.Tensor], Any]] = {
        "scatter_add": lambda at: ops.scatter_add(x.view(-1), 0, at, terms.view(-1)),
        "index_add": lambda at: ops.index_add(x, 0, at, terms),
        "embedding": lambda at: ops.embedding(at, x),
    }
    GENERATION.advance()
    function = getattr(ops, name)
    for _ in range(3):
        calls[name](index)
    assert function.recordings == 1
    for wrong in (-1, 6, 7, -(2**63), 2**63 - 1, 2**62, -(2**62) - 1):
        for place in range(9):
            at = index.clone()
            at[place] = wrong
            with pytest.raises(OutOfRangeError, match=rf"^{name}: index\[{place}\] is {wrong}, expected 0 to 5"):
                calls[name](at)
    calls[name](index)
    assert function.recordings == 1


def test_reads__two_checks_of_one_range_that_are_not_one() -> None:
    """How far a draw reaches depends on how many numbers it takes."""
    few, many = torch.zeros(5), torch.zeros(50)

    @cache_calls
    def draws(a: torch.Tensor, b: torch.Tensor, position: torch.Tensor) -> Any:
        draw = registry.functions.bernoulli_scalar
        return draw(a, position, 0.5), draw(b, position, 0.5)

    for _ in range(3):
        draws(few, many, torch.tensor([1, 0, 0]))
    assert draws.recordings == 1
    for place, fails in ((2**63 - 60, False), (2**63 - 10, True)):
        with pytest.raises(OutOfRangeError) if fails else nullcontext():
            draws(few, many, torch.tensor([1, 0, place]))
