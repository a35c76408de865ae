"""Memory of outputs."""

from __future__ import annotations

import torch

from repdl_cpu import _machine


def huge_pages(output: torch.Tensor) -> torch.Tensor:
    """`output`, not yet written, in huge pages where it is large and the system has them."""
    if output.nbytes >= _machine.HUGE_FROM:
        _machine.prefer_huge_pages(output.data_ptr(), output.nbytes)
    return output
