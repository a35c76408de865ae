"""The entry point of repdl: `cuda`, and `cuda-emulated` where this installation was built with it.

Importing this module raises `UnavailableError` with the reason where there is no device; the
emulated backend, for tests without a GPU, is registered before that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import torch

from repdl.errors import UnavailableError
from repdl.registry.backend import Backend, register_backend
from repdl_cuda import __version__
from repdl_cuda.native import NATIVE, load


def make_backend(name: str, device: str, priority: int, describe: Callable[[], Mapping[str, str]]) -> Backend:
    """A backend of all families; which native module an op runs in follows from its tensors."""
    ops, float64 = NATIVE.implement(NATIVE.kernels(torch.empty(0, device=device)))
    return Backend(
        name=name,
        device=device,
        ops=ops,
        priority=priority,
        float64=float64,
        describe=lambda: {"version": __version__, **describe()},
    )


def no_device() -> str:
    """Why there is no device to run on, or ''."""
    reason: str = load("_cuda").no_device()
    if not reason and torch.version.cuda is None:
        reason = f"torch {torch.__version__} is built without CUDA"
    return reason


def _devices() -> Mapping[str, str]:
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    driver = Path("/proc/driver/nvidia/version")  # torch does not tell it, Linux does
    found = re.search(r"\d+\.[\d.]+", driver.read_text()) if driver.exists() else None
    return {"devices": ", ".join(names), "driver": found[0] if found else "unknown"}


def _emulation() -> Mapping[str, str]:
    return {"seed": os.environ.get("REPDL_EMULATION_SEED", "0")}


if find_spec("repdl_cuda._emulated"):
    load("_emulated")
    register_backend(make_backend("cuda-emulated", "cpu", priority=-1000, describe=_emulation))

if _reason := no_device():
    raise UnavailableError(f"no device: {_reason}")

backend = make_backend("cuda", "cuda", priority=100, describe=_devices)
