"""Reference of `contract/v1/matmul.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference.arithmetic import dot, to_numpy, to_torch


def matmul(input: torch.Tensor, mat2: torch.Tensor, transA: bool, transB: bool, contract: str) -> torch.Tensor:
    a, b = to_numpy(input), to_numpy(mat2)
    if transA:
        a = a.swapaxes(-1, -2)
    if transB:
        b = b.swapaxes(-1, -2)
    a = np.moveaxis(a, -1, 0)[..., :, None]  # (K, ..., M, 1)
    b = np.moveaxis(b, -2, 0)[..., None, :]  # (K, ..., 1, N)
    return to_torch(dot(a, b, contract))


OPS = {"matmul": matmul}
