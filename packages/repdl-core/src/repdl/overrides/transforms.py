"""Python's numbers beside tensors inside `torch.func.grad` and the other transforms.

torch's parser makes a tensor of such a number, which the transforms wrap; the dispatcher would take the number out
again for a kernel in Python, which can't be done with a wrapped one. So where a transform begins, the number becomes a
tensor that is none of a number, of the dtype that the result has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repdl.overrides.torchs import TorchKernel

KEY = "FuncTorchDynamicLayerFrontMode"
"""Of torch's dispatcher, where all transforms begin."""
_FORMS = "add{}.Tensor", "sub{}.Tensor", "mul{}.Tensor", "div{}.Tensor", "div{}.Tensor_mode"
OPS = {f"aten::{form.format(place)}" for form in _FORMS for place in ("", "_")}
OPS |= {"aten::floor_divide", "aten::floor_divide_.Tensor"}
"""For whose tensors torch's parser takes numbers."""


def wrap_scalars(op: Any) -> Callable[..., Any]:
    """What torch does where a transform begins, with tensors in the place of numbers."""
    original = TorchKernel(op, KEY)

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        return original.call(keyset, args, kwargs)

    return call


__all__ = ["KEY", "OPS", "wrap_scalars"]
