"""The schedules of `torch.optim.lr_scheduler`, whose cosines and powers are correctly rounded.

A schedule of torch that computes neither is torch's own class. `repdl.enable()` changes torch's classes in the same
way. What a schedule is given, such as the functions of `LambdaLR`, is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.optim import lr_scheduler as _theirs

from repdl.overrides.schedules import exact_functions, exact_powers

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import *


def _exact(schedule: type) -> type:
    """A class of torch, or one over it with exact methods."""
    methods = {**exact_functions(schedule), **exact_powers(schedule)}
    if not methods:
        return schedule
    return type(schedule.__name__, (schedule,), {**methods, "__module__": __name__, "__doc__": schedule.__doc__})


globals().update({name: _exact(getattr(_theirs, name)) for name in _theirs.__all__})
__all__ = list(_theirs.__all__)
