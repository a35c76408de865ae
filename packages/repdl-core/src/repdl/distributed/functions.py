"""torch's functions that reduce over ranks, in the order of the contract, whether `repdl.enable()` holds or not.

Each is torch's own function, which checks and prepares; what it calls at the end is RepDL's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from repdl.distributed.collectives import COLLECTIVES, with_work
from repdl.distributed.works import ReductionWork, held
from repdl.errors import UnsupportedError

Function = TypeVar("Function", bound=Callable[..., Any])


class _Reducing(TorchDispatchMode):
    """Calls RepDL's collectives in the place of torch's."""

    def __init__(self, factor: float | torch.Tensor | None) -> None:
        super().__init__()
        self._factor = factor
        self.work: ReductionWork | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        namespace, _, name = func.name().partition("::")
        if namespace != "c10d" or name not in COLLECTIVES:
            return func(*args, **(kwargs or {}))
        return with_work(COLLECTIVES[name](*args, **(kwargs or {}), factor=self._factor), self._boxed)

    def _boxed(self, work: Any) -> Any:
        if isinstance(work, ReductionWork):
            self.work, work = work, held(work)
        return work.boxed()


def _reproducible(function: Function) -> Function:
    parameters = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not hasattr(torch.library, "get_kernel"):
            raise UnsupportedError(f"repdl.distributed: torch is {torch.__version__}, expected 2.13 or newer")
        op = parameters.bind(*args, **kwargs).arguments.get("op", dist.ReduceOp.SUM)
        with _Reducing(getattr(op, "factor", None) if op == dist.ReduceOp.PREMUL_SUM else None) as mode:
            work = function(*args, **kwargs)
        return work if work is None or mode.work is None else mode.work

    call.__doc__ = f"""{function.__name__} of torch.distributed: the ranks are joined by the tree of the contract.

    float32, float64, 16-bit floats, and complex numbers by their parts; integers exactly.

    Raises:
        RankError: at the first reduction of a group, if its ranks differ in contract, versions or world size.
        UnsupportedError: for a reduction, a dtype or a layout outside of the contract.

    Contract: all_reduce v1. Source: https://docs.pytorch.org/docs/stable/distributed.html
    """
    return call  # type: ignore[return-value]


all_reduce = _reproducible(dist.all_reduce)
all_reduce_coalesced = _reproducible(dist.all_reduce_coalesced)
reduce = _reproducible(dist.reduce)
reduce_scatter = _reproducible(dist.reduce_scatter)
reduce_scatter_tensor = _reproducible(dist.reduce_scatter_tensor)

__all__ = ["all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_tensor"]
