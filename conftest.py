"""What holds for the tests of every package."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

STARTUP = str(Path(__file__).parent / "tests/startup")
if STARTUP not in os.environ.get("PYTHONPATH", "").split(os.pathsep):  # the processes of pytest-xdist have it
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (STARTUP, os.environ.get("PYTHONPATH"))))


def pytest_collection_finish() -> None:
    """What is there before the first test stays: no search for garbage looks at it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Tests of `repdl.enable()` are skipped where torch is too old for it; what converted models do is tested."""
    try:
        return (yield)
    except Exception as error:
        torch = sys.modules.get("torch")
        if torch and not hasattr(torch.library, "get_kernel") and "which hands out its kernels" in str(error):
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
