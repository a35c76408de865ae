"""The test inputs themselves: pinned, because golden bits stand on them."""

from __future__ import annotations

import torch

from repdl.testing.inputs import SPECIAL, index, integers, uniform


def patterns(x: torch.Tensor) -> list[int]:
    """The bit patterns of float32 elements in logical order."""
    return [v & 0xFFFFFFFF for v in x.contiguous().view(torch.int32).reshape(-1).tolist()]


def test_integers__splitmix64() -> None:
    # The published first outputs of SplitMix64 with seed 0.
    assert [int(z) for z in integers(0, 3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(z) for z in integers(1, 3)] == [0xF43EBB0E728CD87A, 0x88F232B68C6303D5, 0xB905660B1A09394B]


def test_uniform__pinned() -> None:
    assert patterns(uniform(1, 2, 3)) == [0x3F687D76, 0x3D8F2320, 0x3EE41598, 0xBF3AB868, 0x3EA075D8, 0xBF504C8A]
    assert patterns(uniform(7, 5, scale=2.0**-70)) == [0x1C2FE5FE, 0x1C71FB5C, 0x1A812270, 0x9C753216, 0x9BC63430]
    assert patterns(uniform(5)) == [0x3F5F272C]
    assert uniform(5).shape == () and uniform(5, 0, 3).shape == (0, 3)


def test_uniform__special_pinned() -> None:
    assert patterns(uniform(2, 24, special=True))[:8] == [
        *(0x3E8A7120, 0x3F50FAEC, 0x80000000, 0xBEFDB63C, 0xBDD38D30, 0x3F800000, 0xFF800000, 0xBEEAE1A0),
    ]
    seen = set(patterns(uniform(1, 4000, special=True)))
    assert set(patterns(torch.tensor(SPECIAL))) <= seen


def test_uniform__range_and_grid() -> None:
    x = uniform(3, 5000).double()
    assert x.min() >= -1 and x.max() < 1
    assert torch.equal((x * 2**23).round(), x * 2**23)
    # 5000 draws: the mean of a uniform variable has standard deviation 0.0082.
    assert abs(x.mean().item()) < 5 * 0.0082


def test_index__pinned() -> None:
    assert index(3, 10, 8).tolist() == [2, 7, 2, 6, 0, 6, 6, 0]
    assert index(3, 10, 2, 4).shape == (2, 4) and index(3, 10, 1).dtype == torch.int64
