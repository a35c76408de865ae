"""Every op with other sizes and layouts than its golden cases have: the reference's bits."""

from __future__ import annotations

import pytest

import repdl
import repdl_cpu
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing.resized import resized_calls

OF_CPU = [op for op in implementations(get_backend("cpu")) if op in OPS]
LEVELS = ((repdl_cpu.get_isa(), 1), ("baseline", 3))


def check(ops: list[str], seeds: range) -> int:
    found, before = 0, repdl.settings.threads.state.threads
    try:
        for op in ops:
            for call in resized_calls(op, seeds):
                found += 1
                for isa, threads in LEVELS:
                    repdl.set_num_threads(threads)
                    with repdl_cpu.use_isa(isa):
                        call.check("cpu", f"{isa}, {threads} threads")
    finally:
        repdl.settings.threads.state.threads = before
    return found


@pytest.mark.parametrize("first", range(4))
def test_resized(first: int) -> None:
    ops = OF_CPU[first::4]
    assert check(ops, range(3)) > 2 * len(ops)


@pytest.mark.nightly
@pytest.mark.parametrize("op", OF_CPU)
def test_resized__many(op: str) -> None:
    assert check([op], range(100, 400))
