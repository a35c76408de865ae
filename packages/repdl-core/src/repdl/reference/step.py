"""What the references of all optimizer steps share."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.tensors.overlap import check_memory


def check_shared(op: str, read: Sequence[torch.Tensor], *written: Sequence[torch.Tensor]) -> None:
    """Raise if a contiguous tensor that is written shares memory with another tensor."""
    spans = [(t.data_ptr(), t.nbytes, False) for t in read if t.is_contiguous()]
    spans += [(t.data_ptr(), t.nbytes, True) for ts in written for t in ts if t.is_contiguous()]
    check_memory(op, spans)
