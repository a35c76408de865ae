"""Process-wide settings: chosen backend and number of threads. None of them changes a bit."""

from __future__ import annotations

import os

import torch


class _State:
    backend: str = os.environ.get("REPDL_BACKEND", "")
    threads: int = 0


state = _State()


def set_num_threads(n: int) -> None:
    """Use `n` threads in CPU kernels. The bits do not depend on it.

    Raises:
        ValueError: if `n` is not positive.
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"set_num_threads: n is {n!r}, expected a positive integer")
    state.threads = n


def get_num_threads() -> int:
    """Number of threads of CPU kernels; by default `torch.get_num_threads()`."""
    return state.threads or torch.get_num_threads()
