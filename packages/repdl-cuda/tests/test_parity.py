"""The parity suite on the GPU, or emulated on the CPU.

Emulated cases run in three orders of threads, on machines of several sizes; those that are made of them in another
dtype run in one, and in the nightly session in six.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest

import repdl
from repdl.testing import cases
from repdl.testing.parity import ParityTests

BACKENDS = {name: row.error for name, row in repdl.backends().items() if name.startswith("cuda")}
pytestmark = pytest.mark.usefixtures("one_stream")


def test_parity__a_backend_is_here() -> None:
    assert None in BACKENDS.values(), BACKENDS


PROCESSORS = (16, 46, 78, 108, 132, 170)
"""Numbers of multiprocessors of GPUs from compute capability 7.5 on: tiles, splits and grids are chosen by them."""


@contextmanager
def machine(seed: int, processors: int) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPDL_EMULATION_SEED", str(seed))
        patch.setenv("REPDL_EMULATION_MULTIPROCESSORS", str(processors))
        yield f"seed {seed}, {processors} multiprocessors"


LARGE = {"avg_pool__large", "avg_pool__large_f64", "avg_pool_backward__large", "avg_pool_backward__large_f64"}

if "cuda" in BACKENDS and not BACKENDS["cuda"]:

    class TestCuda(ParityTests):
        backend = "cuda"
        settings = (nullcontext,)  # those of a CPU don't reach kernels


if "cuda-emulated" in BACKENDS:

    class TestEmulated(ParityTests):
        backend = "cuda-emulated"
        settings = tuple(partial(machine, *which) for which in ((1, 132), (0, 1), (2, 16)))
        for_contracts = (partial(machine, 0, 4),)
        trusts_recorded = True  # repdl-cpu's suite runs the reference
        whole = False  # the class below is
        once = frozenset(str(case) for case in cases() if case.derived)
        without = LARGE  # a minute; the class below has them

    @pytest.mark.nightly
    class TestEmulatedPlans(ParityTests):
        backend = "cuda-emulated"
        settings = tuple(partial(machine, 0, processors) for processors in PROCESSORS)
        for_contracts = (partial(machine, 0, 132),)
