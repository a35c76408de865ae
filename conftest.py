"""What holds for the tests of every package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext

import pytest


@pytest.fixture(autouse=True)
def state_of_the_process() -> Iterator[None]:
    """No test leaves `repdl.enable()`, or a seeded default generator, to those that run in its process after it."""
    repdl = sys.modules.get("repdl")  # the audit's tests run without it
    with repdl.random.fork_rng() if repdl else nullcontext():
        yield
    if repdl := sys.modules.get("repdl"):
        repdl.disable()
