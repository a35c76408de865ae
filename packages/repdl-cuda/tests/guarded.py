"""Runs every emulated case of some families on tensors that end where memory does. Run by test_bounds.py."""

from __future__ import annotations

import os
import sys

import torch

import repdl.registry.native
from repdl.registry.backend import get_backend
from repdl.testing import cases, covers, run
from repdl.testing.guarded import guarded, on_guarded


def workspace(like: torch.Tensor, size: int) -> torch.Tensor:
    """As in repdl.registry.native, its end guarded; the start of memory is aligned to 16 bytes."""
    return guarded(torch.zeros(-(-size // 16) * 16, dtype=torch.uint8))


def main(families: list[str]) -> None:
    ops = get_backend("cuda-emulated").ops
    made = [
        on_guarded(case)
        for family in families
        for case in cases(family)
        if not case.derived and case.op in ops and covers(case, "cuda-emulated")
    ]
    repdl.registry.native.workspace = workspace
    for tile in (0, 32, 64, 128):
        os.environ["REPDL_CUDA_TILE"] = str(tile)
        for case in made:
            print(case, "in tiles of", tile, flush=True)  # the last of them killed the process
            run(case, "v1", ops[case.op])
    print(len(made), "cases")


if __name__ == "__main__":
    main(sys.argv[1:])
