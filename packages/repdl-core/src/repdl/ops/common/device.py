"""Tables and lengths that the host has, on the device of the tensors that they belong to."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["to_device"]


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device. From the host it comes behind what is in the queue of a GPU: the host does not wait.

    It waits where memory would be read or written after this returns, which the caller may change or read meanwhile:
    that of a pinned tensor, and the host's for what a device has. While a CUDA graph is captured torch's own copy is
    made, which raises: a replay would read memory that is gone.
    """
    queued = device.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned()
    return tensor.to(device, non_blocking=queued and not torch.cuda.is_current_stream_capturing())
