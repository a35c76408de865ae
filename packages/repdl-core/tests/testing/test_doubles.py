"""The arguments that the correctly rounded functions of float64 are tested with."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from repdl.testing import doubles

NAMES = sorted([*doubles.RANGES, *doubles.TWO_OPERANDS])


@pytest.mark.parametrize("name", NAMES)
def test_doubles__arguments(name: str) -> None:
    columns = doubles.arguments(name, 100)
    assert len(columns) == (2 if name in doubles.TWO_OPERANDS else 1)
    assert all(x.dtype == np.float64 and x.shape == columns[0].shape for x in columns)
    patterns = columns[0].view(np.uint64)
    assert len(np.unique(patterns >> np.uint64(52))) == 4096, "each sign and exponent"
    for kind in (doubles.special(name), doubles.edges(name), doubles.hard(name)):
        assert np.isin(kind[0].view(np.uint64), patterns).all()


def test_doubles__every_machine_has_the_same() -> None:
    digest = hashlib.sha256()
    for name in NAMES:
        for x in doubles.arguments(name, 100, seed=3):
            digest.update(x.tobytes())
    assert digest.hexdigest()[:16] == "e184087888212619"


def test_doubles__seeds_are_other_random_arguments() -> None:
    one, other = (np.unique(doubles.random("exp", 1000, seed)[0]) for seed in (0, 1))
    assert not np.isin(one, other).any()
    assert len(one) > 990
