"""torch.autocast: the dtype in which an op computes while it is on, as torch's own lists have it.

A list is registered at the dispatcher's autocast keys, which are off the path of a call while
autocast is off. Operands are converted by RepDL's `cast`, derivative included; float64 stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import _C

from repdl.dtypes import SINGLE

Function = Callable[..., Any]
Lists = Mapping[str, torch.dtype | None]
"""Device type -> the dtype that autocast of this device gives an op; None is autocast's own dtype."""

LOWER: Lists = {"cpu": None, "cuda": None}
"""Products and convolutions."""
FLOAT32: Lists = {"cpu": torch.float32, "cuda": torch.float32}
"""Losses."""
FLOAT32_ON_CUDA: Lists = {"cuda": torch.float32}
FLOAT32_ON_CPU: Lists = {"cpu": torch.float32}
"""Sums, exponentials and what is made of them: torch's list for the CPU is shorter."""

KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_EXCLUDED = _C.DispatchKeySet(_C.DispatchKey.AutocastCPU) | _C.DispatchKeySet(_C.DispatchKey.AutocastCUDA)


def kernel(overload: Function, device: str, dtype: torch.dtype | None) -> Function:
    """The kernel of an op at the autocast key of a device: the op on converted operands."""

    def autocast(*args: Any) -> Any:
        wanted = dtype or torch.get_autocast_dtype(device)
        with _C._ExcludeDispatchKeyGuard(_EXCLUDED):
            return overload(*(_converted(value, device, wanted) for value in args))

    return autocast


def without(function: Function) -> Function:
    """A function whose ops take the dtypes that they are given: a derivative, for which the forward call chose them."""

    def run(*args: Any) -> Any:
        if not _C._is_any_autocast_enabled():
            return function(*args)
        with _C._ExcludeDispatchKeyGuard(_EXCLUDED):
            return function(*args)

    return run


def _converted(value: Any, device: str, dtype: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype is dtype or value.dtype not in SINGLE:
        return value
    return torch.ops.repdl.cast(value, dtype) if value.device.type == device else value
