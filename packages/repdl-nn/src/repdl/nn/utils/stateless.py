"""torch's own call of a module with other parameters."""

from __future__ import annotations

from torch.func import functional_call

__all__ = ["functional_call"]
