"""Convolutions, pooling and interpolation with random strides, paddings, groups and sizes: the reference's bits."""

from __future__ import annotations

import pytest
import torch

import repdl
from repdl.registry import implementations
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits
from repdl.testing.windows import window_calls

BACKENDS = [name for name, row in repdl.backends().items() if name.startswith("cuda") and not row.error]
pytestmark = pytest.mark.usefixtures("one_stream")


def check(backend: str, seed: int) -> None:
    chosen = get_backend(backend)
    for op, args in window_calls(seed):
        expected = implementations(get_backend("reference"))[op](*args)
        moved = [a.to(chosen.device) if isinstance(a, torch.Tensor) else a for a in args]
        actual = implementations(chosen)[op](*moved)
        found = [t.cpu() for t in actual] if isinstance(actual, tuple) else actual.cpu()
        wanted = list(expected) if isinstance(expected, tuple) else expected
        assert_same_bits(found, wanted, f"{op} on {backend}, seed {seed}, {args[1:]}")


LONG = 12
"""A minute, of interpolation; others take a tenth of a second."""
SEEDS = [pytest.param(seed, marks=pytest.mark.nightly) if seed == LONG else seed for seed in range(60)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_window_options(backend: str, seed: int) -> None:
    check(backend, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", BACKENDS)
def test_window_options__many(backend: str) -> None:
    for seed in range(1000, 2000):
        check(backend, seed)
