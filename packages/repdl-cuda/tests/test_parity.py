"""The parity suite on the GPU, or emulated on the CPU in three orders of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import repdl
from repdl.testing.parity import ParityTests

BACKENDS = {name: row.error for name, row in repdl.backends().items() if name.startswith("cuda")}


def test_parity__a_backend_is_here() -> None:
    assert None in BACKENDS.values(), BACKENDS


@contextmanager
def seed(number: int) -> Iterator[str]:
    before = os.environ.get("REPDL_EMULATION_SEED")
    os.environ["REPDL_EMULATION_SEED"] = str(number)
    try:
        yield f"seed {number}"
    finally:
        del os.environ["REPDL_EMULATION_SEED"]
        if before is not None:
            os.environ["REPDL_EMULATION_SEED"] = before


if "cuda" in BACKENDS and not BACKENDS["cuda"]:

    class TestCuda(ParityTests):
        backend = "cuda"


if "cuda-emulated" in BACKENDS:

    class TestEmulated(ParityTests):
        backend = "cuda-emulated"
        settings = tuple(partial(seed, number) for number in (0, 1, 2))
        for_contracts = (partial(seed, 0),)
