"""Reference of `contract/v1/sum.md`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.reference import arithmetic
from repdl.reference.arithmetic import to_numpy, to_torch


def sum(input: torch.Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> torch.Tensor:
    x = to_numpy(input)
    kept = [d for d in range(x.ndim) if d not in dim]
    n = int(np.prod([x.shape[d] for d in dim], dtype=np.int64))
    rows = x.transpose(*dim, *kept).reshape(n, *(x.shape[d] for d in kept))
    total = arithmetic.sum(rows, contract)
    return to_torch(total.reshape([1 if d in dim else x.shape[d] for d in range(x.ndim)]) if keepdim else total)


OPS = {"sum": sum}
