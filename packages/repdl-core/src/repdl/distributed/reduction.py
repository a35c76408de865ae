"""Which reduction a collective of torch asks for, in the words of the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from repdl import registry
from repdl.contract import ANY_CONTRACT
from repdl.dtypes import ALL, FLOATS_16_BIT
from repdl.errors import DTypeError, UnsupportedError

_OPS = {"SUM": "sum", "AVG": "avg", "PREMUL_SUM": "sum", "PRODUCT": "product", "MAX": "max", "MIN": "min"}
_OF_COMPLEX = ("sum", "avg")


@dataclass(frozen=True)
class Reduction:
    """A reduction of floating-point numbers.

    Attributes:
        op: that of the registered op `all_reduce`.
        factor: what a premultiplied sum multiplies the tensor of this rank by; None: nothing.
    """

    op: str
    factor: float | torch.Tensor | None = None

    def multiplied(self, flat: torch.Tensor) -> torch.Tensor:
        """What this rank brings to the tree, in the dtype of the arithmetic where it is multiplied."""
        if self.factor is None:
            return flat
        wide = registry.functions.cast(flat, torch.float32) if flat.dtype in FLOATS_16_BIT else flat
        return registry.functions.mul(wide, _as_tensor(self.factor, wide), ANY_CONTRACT)


def _as_tensor(factor: float | torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    tensor = factor if isinstance(factor, torch.Tensor) else torch.tensor(factor, dtype=torch.float64)
    return registry.functions.cast(tensor.to(like.device), like.dtype)


def name_of(reduce_op: Any) -> str:
    """The name that torch has for a reduction: of a ReduceOp, or of one in the dispatcher."""
    return str(kind_of(reduce_op).name)


def kind_of(reduce_op: Any) -> Any:
    """The kind of a ReduceOp, of one in the dispatcher, or itself."""
    given = reduce_op.op if hasattr(reduce_op, "op") else reduce_op
    return dist.ReduceOp.RedOpType(given() if isinstance(reduce_op, torch.ScriptObject) else given)


def is_exact(dtype: torch.dtype) -> bool:
    """Whether the sum of numbers of a dtype is exact, in any order."""
    return not (dtype.is_floating_point or dtype.is_complex)


def reduction_of(collective: str, reduce_op: Any, tensor: torch.Tensor, factor: Any = None) -> Reduction:
    """The reduction of a collective for tensors like `tensor`.

    Raises:
        UnsupportedError: for a layout, a dtype or a reduction outside of the contract.
    """
    name = name_of(reduce_op)
    if tensor.layout is not torch.strided:
        raise UnsupportedError(
            f"{collective}: tensor.layout is {tensor.layout}, expected torch.strided; convert it first with .to_dense()"
        )
    op = _OPS.get(name)
    if op is None or (tensor.is_complex() and op not in _OF_COMPLEX):
        raise UnsupportedError(
            f"{collective}: op is {name} for {tensor.dtype}, expected SUM, AVG or PREMUL_SUM, or for real numbers "
            f"PRODUCT, MAX or MIN"
        )
    real = tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype
    if real not in ALL:
        raise DTypeError(
            f"{collective}: tensor.dtype is {tensor.dtype}, expected float32, float64, bfloat16 or float16; "
            f"convert it first, for example tensor.to(torch.float32)"
        )
    if name == "PREMUL_SUM" and factor is None:
        raise UnsupportedError(
            f"{collective}: op is PREMUL_SUM, whose factor torch's dispatcher does not give, expected SUM; call "
            f"repdl.distributed.{collective}, or multiply the tensor before"
        )
    return Reduction(op, factor if name == "PREMUL_SUM" else None)


__all__ = ["Reduction", "is_exact", "kind_of", "name_of", "reduction_of"]
