"""Reference of `contract/v1/scan.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.contract import as_contract
from repdl.reference.arithmetic import fma, to_numpy, to_torch


def cumsum(input: torch.Tensor, dim: int, contract: str) -> torch.Tensor:
    x = np.moveaxis(to_numpy(input), dim, 0)
    out = np.empty_like(x)
    n = x.shape[0]
    block = as_contract(contract).sum_block or max(n, 1)
    carry = np.zeros(x.shape[1:], x.dtype)
    with np.errstate(all="ignore"):
        for start in range(0, n, block):
            chain = np.zeros_like(carry)
            for i in range(start, min(start + block, n)):
                chain = chain + x[i]
                out[i] = carry + chain
            carry = out[min(start + block, n) - 1]
    return to_torch(np.moveaxis(out, 0, dim))


def linear_scan(factor: torch.Tensor, term: torch.Tensor, dim: int) -> torch.Tensor:
    a, b = (np.moveaxis(to_numpy(t), dim, 0) for t in (factor, term))
    out = b.copy()
    for i in range(1, b.shape[0]):
        out[i] = fma(a[i], out[i - 1], b[i])
    return to_torch(np.moveaxis(out, 0, dim))


OPS = {"cumsum": cumsum, "linear_scan": linear_scan}
