"""Optimizers of `torch.optim` whose steps are the same bits on any machine."""

from __future__ import annotations

from repdl.optim import adaptive, sgd
from repdl.optim.adaptive import *
from repdl.optim.sgd import *

__all__ = [*adaptive.__all__, *sgd.__all__]
