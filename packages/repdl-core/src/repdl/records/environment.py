"""What a run depends on beside its program."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from repdl.contract import get_contract
from repdl.overrides.switch import is_enabled

VARIABLES = (
    *("ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "CUDA_VISIBLE_DEVICES", "MKL_CBWR", "MKL_NUM_THREADS"),
    *("OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "PYTHONHASHSEED", "REPDL_BACKEND", "REPDL_CONTRACT", "REPDL_ENABLE"),
    "REPDL_CPU_ISA",
)
"""Of the environment those that change what is computed."""
PACKAGES = (
    "repdl-core",
    "repdl-cpu",
    "repdl-cuda",
    "repdl-nn",
    "repdl-optim",
    "transformers",
    "accelerate",
    "lightning",
)


def environment() -> dict[str, Any]:
    """Of this process, as a record has it."""
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "enabled": is_enabled(),
        "contract": str(get_contract()),
        "machine": platform.machine(),
        "processor": _processor(),
        "byte order": sys.byteorder,
        "system": f"{platform.system()} {platform.release()}",
        "capability": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32 products": torch.get_float32_matmul_precision(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "rank": os.environ.get("RANK"),
        "world size": os.environ.get("WORLD_SIZE"),
        "commit": _commit(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            return next(names, platform.processor())
    except OSError:
        return platform.processor()


def _commit() -> str | None:
    """Of the git repository of the working directory, with a + where files differ from it."""
    asked = "git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() if told.returncode == 0 else None


__all__ = ["environment"]
