"""What holds for the tests of every package."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import nullcontext

import pytest

OLDER_TORCH = "which hands out its kernels; use repdl.from_torch_module"
"""What `repdl.enable()` says with a torch that it can't run with; converted models can."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Tests of `repdl.enable()` are skipped where torch is too old for it."""
    try:
        return (yield)
    except Exception as error:
        if OLDER_TORCH in str(error):
            pytest.skip("repdl.enable() needs a newer torch")
        raise


pytest_runtest_setup = pytest_runtest_call


@pytest.fixture(autouse=True)
def state_of_the_process() -> Iterator[None]:
    """No test leaves `repdl.enable()`, or a seeded default generator, to those that run in its process after it."""
    repdl = sys.modules.get("repdl")  # the audit's tests run without it
    with repdl.random.fork_rng() if repdl else nullcontext():
        yield
    if repdl := sys.modules.get("repdl"):
        repdl.disable()
