"""What the references of all optimizer steps share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from repdl.ops._step import check_memory
from repdl.reference.arithmetic import Array


def rounded(x: float | np.float64, like: Array) -> Array:
    """A double, rounded once to the dtype of `like`: rounded( ) of the texts."""
    return np.asarray(np.float64(x).astype(like.dtype))


def check_shared(op: str, read: Sequence[torch.Tensor], *written: Sequence[torch.Tensor]) -> None:
    """Raise if a contiguous tensor that is written shares memory with another tensor."""
    spans = [(t.data_ptr(), t.nbytes, False) for t in read if t.is_contiguous()]
    spans += [(t.data_ptr(), t.nbytes, True) for ts in written for t in ts if t.is_contiguous()]
    check_memory(op, spans)
