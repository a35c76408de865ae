"""Optimizers, schedules and averages of `torch.optim` with the same bits on any machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repdl.optim import lr_scheduler, swa_utils
from repdl.optim.adaptive import *
from repdl.optim.asgd import *
from repdl.optim.composed import *
from repdl.optim.lbfgs import *
from repdl.optim.moments import *
from repdl.optim.rprop import *
from repdl.optim.sgd import *
from repdl.optim.sparse_adam import *
from repdl.optim.sums_of_squares import *

if not TYPE_CHECKING:  # which exports what is imported with *
    __all__ = sorted(name for name, value in list(vars().items()) if isinstance(value, type))
    __all__ += ["lr_scheduler", "swa_utils"]
