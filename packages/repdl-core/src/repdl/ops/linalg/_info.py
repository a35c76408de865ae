"""Whether a matrix has factors: LAPACK's `info`, and the error where it has none."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.errors import LinAlgError
from repdl.tensors.values import assert_on_device, has_values, is_numpys


def info_of(failed: Tensor) -> Tensor:
    """0, or the index, from 1 on, of the first column that failed, of each matrix: `(..., N) -> (...)`, int32."""
    if is_numpys(failed):
        do_not_cache()
        if not failed.numpy().any():
            return torch.zeros(failed.shape[:-1], dtype=torch.int32, device=failed.device)
    first = failed.cumsum(-1).eq(0).sum(-1) + 1
    return torch.where(failed.any(-1), first, 0).to(torch.int32)


def check_info(op: str, info: Tensor, expected: str, found: str) -> None:
    """Raise unless each `info` is 0. `expected` says what A is not; `found`, with an `{index}`, what shows it."""
    if assert_on_device(op, info, lambda info: info == 0, f"A is not {expected}") or not has_values(info):
        return
    if is_numpys(info) and not info.numpy().any():
        return
    if wrong := info.nonzero().tolist():
        at = wrong[0]
        index = int(info[tuple(at)]) - 1
        raise LinAlgError(f"{op}: A{at or ''} is not {expected}: {found.format(index=index)}")
