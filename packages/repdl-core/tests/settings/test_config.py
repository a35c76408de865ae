"""Process-wide settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import repdl
from repdl.testing import assert_same_bits, uniform


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = repdl.settings.threads.state.threads
    yield
    repdl.settings.threads.state.threads = before


def test_config__threads_follow_torch_until_set() -> None:
    repdl.settings.threads.state.threads = 0
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert repdl.get_num_threads() == 2
        repdl.set_num_threads(5)
        assert (repdl.get_num_threads(), torch.get_num_threads()) == (5, 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", None, True, 8193, 2**31, 10**12])
def test_config__threads_not_a_positive_integer(n: object) -> None:
    repdl.set_num_threads(4)
    with pytest.raises(ValueError, match="set_num_threads: n is .*expected a positive integer up to 8192"):
        repdl.set_num_threads(n)  # type: ignore[arg-type]
    assert repdl.get_num_threads() == 4


def test_config__most_threads_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest number that is accepted is one that kernels take, also when it is torch's."""
    x = uniform(1, 100)
    repdl.set_num_threads(1)
    expected = repdl.ops.add(x, x)
    repdl.set_num_threads(8192)
    assert_same_bits(repdl.ops.add(x, x), expected, "8192 threads")
    repdl.settings.threads.state.threads = 0
    monkeypatch.setattr(torch, "get_num_threads", lambda: 10**12)
    assert repdl.get_num_threads() == 8192


def test_config__threads_do_not_change_bits() -> None:
    x, y = uniform(1, 150, 300), uniform(2, 300, 110)
    repdl.set_num_threads(1)
    expected = repdl.ops.mm(x, y)
    for n in (2, 3, 7, 64):
        repdl.set_num_threads(n)
        assert_same_bits(repdl.ops.mm(x, y), expected, f"{n} threads")
