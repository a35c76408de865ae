"""Numbers of calls that are run again: which ones a recording has, and how those are rounded that vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from repdl import ops
from repdl.callcache import c_extension
from repdl.testing.compare import assert_same_bits

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")


def x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) + 3


def test_replay__numbers_belong_to_the_signature() -> None:
    a = x(4)
    for number in (1.0, 2.0, 1, True, float("nan"), 2.0, -0.0, 0.0, 2.0):
        for _ in range(3):
            expected = ops.mul.__wrapped__(a, number)  # type: ignore[attr-defined]
            assert_same_bits(ops.mul(a, number), expected, str(number))


def test_replay__tensors_read_as_numbers() -> None:
    a, b = x(4), x(4)
    for value in (0.5, 2.0, 3.0, 4.0):
        assert_same_bits(ops.add(a, b, alpha=torch.tensor(value)), ops.add(a, b, alpha=value), str(value))  # type: ignore[arg-type]


def test_replay__tensors_read_as_integers() -> None:
    a, images = x(3, 3), x(1, 3, 3)
    calls: list[Callable[[Any], torch.Tensor]] = [
        lambda n: ops.sum(a, n),
        lambda n: ops.norm(a, 2, [n]),
        lambda n: ops.avg_pool1d(images, n + 1),
        lambda n: ops.tensordot(a, images[0], n + 1),
    ]
    for call in calls:
        for value in (0, 0, 0, 1):
            assert_same_bits(call(torch.tensor(value)), call(value), str(value))
    for dims in ([[0], [1]], [[0], [1]], [[0], [1]], [[1], [0]]):
        assert_same_bits(ops.tensordot(a, images[0], torch.tensor(dims)), ops.tensordot(a, images[0], dims), str(dims))


def test_replay__numbers_are_rounded_once_to_nearest_even() -> None:
    """Halves between two numbers, of an even and of an odd one, their neighbours, and what is out of range."""
    around = [1.0, 3.0, 2.0**-126, 2.0**-140, 2.0**-149, 2.0**127 * (2 - 2.0**-23)]
    numbers = [0.0, -0.0, 1e300, 1e-300, math.inf]
    for centre in around:
        step = 2.0 ** (max(math.frexp(centre)[1], -125) - 24)
        for quarters in range(-8, 9):
            middle = centre + quarters * step / 4
            numbers += [middle, math.nextafter(middle, math.inf), math.nextafter(middle, -math.inf)]
    ones, zeros = torch.ones(3), torch.zeros(3)
    with np.errstate(over="ignore"):
        for number in (sign * number for number in numbers for sign in (1, -1)):
            expected = float(np.float32(number))
            assert ops.mul(ones, number).tolist() == [expected] * 3, number.hex()
            assert ops.add(zeros, number).tolist() == [expected] * 3, number.hex()
