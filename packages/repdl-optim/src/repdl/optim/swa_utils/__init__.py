"""Averages of parameters, as `torch.optim.swa_utils`: torch's functions, whose ops are computed by RepDL.

They have the bits of torch's under `repdl.enable()`. `update_bn` is torch's: it calls the model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.nn import Module
from torch.optim import swa_utils as _theirs
from torch.optim.swa_utils import update_bn

from repdl.optim._within import by_repdl
from repdl.overrides.schedules import exact_functions


class AveragedModel(_theirs.AveragedModel):
    """`torch.optim.swa_utils.AveragedModel` with reproducible bits: same arguments, same state dict.

    A function for averages that is given computes by RepDL too, or raises.

    Raises:
        UnsupportedError: at `update_parameters` for an op of such a function that is not reproducible.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.AveragedModel.html
    """

    def update_parameters(self, model: Module) -> None:
        """Take a model into the average."""
        with by_repdl("AveragedModel"):
            super().update_parameters(model)


def _averaging(make: Callable[..., Any]) -> Callable[..., Any]:
    """torch's function that makes a function of averages."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        function = make(*args, **kwargs)

        @functools.wraps(function)
        def average(*tensors: Any) -> Any:
            with by_repdl(make.__name__):
                return function(*tensors)

        return average

    return made


get_ema_avg_fn = _averaging(_theirs.get_ema_avg_fn)
get_ema_multi_avg_fn = _averaging(_theirs.get_ema_multi_avg_fn)
get_swa_avg_fn = _averaging(_theirs.get_swa_avg_fn)
get_swa_multi_avg_fn = _averaging(_theirs.get_swa_multi_avg_fn)

SWALR = type(
    "SWALR",
    (_theirs.SWALR,),
    {**exact_functions(_theirs.SWALR), "__module__": __name__, "__doc__": _theirs.SWALR.__doc__},
)

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
