"""Which row lies where, and LAPACK's pivots: each row and the one that it changed places with, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.ops.common import check_index
from repdl.tensors.values import is_numpys

Numbers = list[int]


def pivots_of(rows: Tensor, k: int) -> Tensor:
    """`(..., M) -> (..., k)`, int32: the row, from 1 on, that each of the first k rows changed places with."""
    if is_numpys(rows):
        return _of_each(rows, k, np.int32, lambda matrix: _exchanges(matrix, k))
    at = torch.arange(rows.shape[-1], device=rows.device).expand_as(rows).contiguous()  # where each row lies
    pivots = torch.empty(*rows.shape[:-1], k, dtype=torch.int32, device=rows.device)
    lies = at.clone()  # the row that lies at each place
    for j in range(k):
        wanted = rows[..., j : j + 1]
        place = at.gather(-1, wanted)
        here = lies[..., j : j + 1].clone()
        pivots[..., j : j + 1] = place + 1
        lies = lies.scatter(-1, place, here)
        at = at.scatter(-1, here, place)
    return pivots


def rows_of(op: str, pivots: Tensor, m: int) -> Tensor:
    """The inverse of `pivots_of`, of m rows: `(..., K) -> (..., m)`, int64. Raises where a pivot is no row."""
    if is_numpys(pivots):
        check_index(op, pivots.long() - 1, m, name="LU_pivots", expected=lambda: f"1 to {m}", given=pivots)
        return _of_each(pivots, m, np.int64, lambda matrix: _exchanged(matrix, m))
    rows = torch.arange(m, device=pivots.device).expand(*pivots.shape[:-1], m).contiguous()
    for j in range(pivots.shape[-1]):
        place = pivots[..., j : j + 1].long() - 1
        here, there = rows[..., j : j + 1].clone(), rows.gather(-1, place)
        rows = rows.scatter(-1, place, here)
        rows[..., j : j + 1] = there
    return rows


def _of_each(
    given: Tensor, count: int, dtype: type[np.signedinteger[Any]], function: Callable[[Numbers], Numbers]
) -> Tensor:
    do_not_cache()
    found = [function(matrix) for matrix in given.reshape(given.shape[:-1].numel(), given.shape[-1]).tolist()]
    return torch.from_numpy(np.array(found, dtype)).reshape(*given.shape[:-1], count)


def _exchanges(rows: Numbers, k: int) -> Numbers:
    at, lies, pivots = list(range(len(rows))), list(range(len(rows))), []
    for j in range(k):
        place, here = at[rows[j]], lies[j]
        pivots.append(place + 1)
        lies[place], at[here] = here, place
    return pivots


def _exchanged(pivots: Numbers, m: int) -> Numbers:
    rows = list(range(m))
    for j, place in enumerate(pivots):
        rows[j], rows[place - 1] = rows[place - 1], rows[j]
    return rows
