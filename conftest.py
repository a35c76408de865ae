"""What holds for the tests of every package."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def torchs_own_afterwards() -> Iterator[None]:
    """No test leaves `repdl.enable()` to those that run in its process after it."""
    yield
    if repdl := sys.modules.get("repdl"):  # the audit's tests run without it
        repdl.disable()
