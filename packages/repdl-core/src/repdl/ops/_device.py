"""Tables and lengths that the host has, on the device of the tensors that they belong to."""

from __future__ import annotations

import torch


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on a device, behind what is in its queue: the host does not wait, but has read its memory.

    While a CUDA graph is captured torch's own copy is made, which raises: a replay would read memory that is gone.
    """
    capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    return tensor.to(device, non_blocking=not capturing)
