"""Memory of outputs."""

from __future__ import annotations

import torch

from repdl.replay import refuse
from repdl_cpu import _machine

LARGE = 1 << 22
"""Bytes from where on huge pages are asked for. The allocator takes memory of this size fresh from
the system, and the first touch of a page of 4 KiB costs more than most kernels spend on it: a
convolution with an output of 51 MB took 52 ms, in huge pages 27 ms."""


def huge_pages(output: torch.Tensor) -> torch.Tensor:
    """`output`, not yet written, in huge pages where it is large and the system has them."""
    if output.nbytes >= LARGE:
        _machine.advise_huge_pages(output.data_ptr(), output.nbytes)
        refuse()  # a replay would not ask
    return output
