"""The number of threads, a process-wide setting. It does not change a bit."""

from __future__ import annotations

import torch


class _State:
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
