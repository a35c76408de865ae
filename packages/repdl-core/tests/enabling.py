"""What tests of `repdl.enable` share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import repdl


@pytest.fixture(autouse=True)
def torchs_own_afterwards() -> Iterator[None]:
    yield
    repdl.disable()


def values(*shape: int) -> torch.Tensor:
    return repdl.random.randn(*shape, generator=repdl.random.Generator(7))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(7), b.nan_to_num(7))
