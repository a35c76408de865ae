"""Runs every emulated case of some families on tensors that end where memory does. Run by test_bounds.py."""

from __future__ import annotations

import sys

import torch

import repdl_cuda.conv2d
import repdl_cuda.matmul
from repdl.backend import get_backend
from repdl.testing import cases, covers, run
from repdl.testing.guarded import guarded, on_guarded


def workspace(tensor: torch.Tensor, elements: int) -> torch.Tensor:
    """As in repdl_cuda.native, its end guarded; the start of memory is aligned to 16 bytes."""
    return guarded(torch.zeros(-(-max(elements, 1) // 4) * 4, dtype=tensor.dtype))


def main(families: list[str]) -> None:
    ops = get_backend("cuda-emulated").ops
    made = [
        on_guarded(case)
        for family in families
        for case in cases(family)
        if not case.derived and covers(case, "cuda-emulated")
    ]
    for module in (repdl_cuda.matmul, repdl_cuda.conv2d):
        module.workspace = workspace  # type: ignore[attr-defined]
    for tile in (0, 32, 64, 128):
        repdl_cuda.matmul.TILE = repdl_cuda.conv2d.TILE = tile
        for case in made:
            run(case, "v1", ops[case.op])
    print(len(made), "cases")


if __name__ == "__main__":
    main(sys.argv[1:])
