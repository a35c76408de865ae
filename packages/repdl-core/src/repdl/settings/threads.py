"""The number of threads, a process-wide setting. It does not change a bit."""

from __future__ import annotations

import torch

from repdl.settings.generation import GENERATION


class _State:
    threads: int = 0


state = _State()


MOST_THREADS = 8192
"""As many processors as Linux can have on x86-64. More threads gain nothing anywhere, and kernels
keep memory for each."""


def set_num_threads(n: int) -> None:
    """Use `n` threads in CPU kernels, at most 8192. The bits do not depend on it.

    They are started when a kernel first needs them. Where the system starts fewer, kernels use those.

    Raises:
        ValueError: if `n` is no integer from 1 to 8192.
    """
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST_THREADS:
        raise ValueError(f"set_num_threads: n is {n!r}, expected a positive integer up to {MOST_THREADS}")
    state.threads = n
    GENERATION.advance()


def get_num_threads() -> int:
    """Number of threads of CPU kernels; by default `torch.get_num_threads()`, at most 8192."""
    return state.threads or min(torch.get_num_threads(), MOST_THREADS)
