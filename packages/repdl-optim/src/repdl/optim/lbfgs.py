"""LBFGS: torch's step, whose ops are computed by RepDL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from repdl.errors import UnsupportedError
from repdl.optim._common import ReproducibleOptimizer
from repdl.overrides.within import Owner, begin, end

_OWNER = Owner("repdl.optim's LBFGS", raises=True, is_converted=False)


class LBFGS(ReproducibleOptimizer, torch.optim.LBFGS):
    """`torch.optim.LBFGS` with reproducible bits: same arguments, same state dict.

    It is torch's own step, whose ops are RepDL's, so its bits are those of torch's LBFGS under
    `repdl.enable()`. The closure is the caller's: it computes by RepDL if the caller sees to it. A step evaluates
    the closure several times; after an error in it, parameters and state are what torch leaves.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: at the step for sparse gradients and DTensors.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.LBFGS.html
    """

    @_disable_dynamo
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Take one step.

        Args:
            closure: computes the loss and its gradients, with gradients enabled.

        Returns:
            What `closure` returned first.
        """
        before = begin(_OWNER)

        def evaluated() -> Any:
            end(before)
            try:
                return closure()
            finally:
                begin(_OWNER)

        theirs: Any = torch.optim.LBFGS.step
        while getattr(theirs, "hooked", False):  # with the hooks of a step, which this one has itself
            theirs = theirs.__wrapped__
        try:
            return theirs(self, evaluated)
        finally:
            end(before)

    def _gather_flat_grad(self) -> Tensor:
        for number, param in enumerate(self._params):
            if hasattr(param, "to_local"):
                raise UnsupportedError(f"LBFGS: params[{number}] is a DTensor, expected a tensor that is whole")
            if param.grad is not None and param.grad.layout is not torch.strided:
                raise UnsupportedError(
                    f"LBFGS: grads[{number}].layout is {param.grad.layout}, expected torch.strided; "
                    f"convert it first with .to_dense()"
                )
        return super()._gather_flat_grad()


__all__ = ["LBFGS"]
