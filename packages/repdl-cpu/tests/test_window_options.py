"""Convolutions, pooling and interpolation with random strides, paddings, groups and sizes, against the reference."""

from __future__ import annotations

import pytest

import repdl
import repdl_cpu
from repdl.registry import implementations
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits
from repdl.testing.windows import window_calls

REFERENCE, CPU = (implementations(get_backend(name)) for name in ("reference", "cpu"))
ISAS = sorted({repdl_cpu.get_isa(), "baseline"})


def check(seeds: range) -> None:
    seen: dict[str, int] = {}
    before = repdl.settings.threads.state.threads
    try:
        for seed in seeds:
            for op, args in window_calls(seed):
                seen[op] = seen.get(op, 0) + 1
                expected = REFERENCE[op](*args)
                for isa, threads in ((ISAS[0], 1), (ISAS[-1], 3)):
                    repdl.set_num_threads(threads)
                    with repdl_cpu.use_isa(isa):
                        shapes = [tuple(a.shape) if hasattr(a, "shape") else a for a in args]
                        assert_same_bits(CPU[op](*args), expected, f"{op}, seed {seed}, {shapes}, {isa}")
    finally:
        repdl.settings.threads.state.threads = before
    assert min(seen.values()) > len(seeds) / 2 and len(seen) == 9, seen


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_window_options(first: int) -> None:
    check(range(first, first + 50))


@pytest.mark.nightly
def test_window_options__many() -> None:
    check(range(1000, 4000))
