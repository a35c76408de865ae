"""Reference of `contract/v1/index_sum.md`."""

from __future__ import annotations

import numpy as np
import torch

from repdl.reference import arithmetic
from repdl.reference.arithmetic import to_numpy, to_torch


def index_sum(values: torch.Tensor, index: torch.Tensor, size: int, contract: str) -> torch.Tensor:
    x, at = to_numpy(values), index.numpy()
    out = np.zeros((size, x.shape[1]), x.dtype)
    ascending = np.argsort(at, kind="stable")
    terms = np.bincount(at, minlength=size)
    first = np.cumsum(terms) - terms
    for n in np.unique(terms):  # all sums of n terms at once
        k = np.flatnonzero(terms == n)
        out[k] = arithmetic.sum(x[ascending[first[k] + np.arange(n)[:, None]]], contract)
    return to_torch(out)


def embedding(
    weight: torch.Tensor, index: torch.Tensor, padding_idx: int, scale_grad_by_freq: bool, contract: str
) -> torch.Tensor:
    rows = torch.index_select(weight.detach(), 0, index.reshape(-1))
    return rows.reshape(*index.shape, weight.shape[1])


OPS = {"index_sum": index_sum, "embedding": embedding}
