"""Optimizers of `torch.optim` whose steps are the same bits on any machine."""

from __future__ import annotations

from repdl.optim.adam import Adam, AdamW
from repdl.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW"]
