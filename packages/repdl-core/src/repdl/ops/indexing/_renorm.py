"""max_norm of tables: rows that are longer become shorter, in place, before they are selected."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.contract import contract_name
from repdl.dtypes.rounding import div
from repdl.errors import check
from repdl.ops.common import constant, less_than, narrowed, widened
from repdl.ops.pointwise.pow import pow
from repdl.registry import as_float, computes, functions as _ops


def check_norm(op: str, max_norm: Any, norm_type: Any) -> tuple[float | None, float]:
    """Both numbers; raises unless `norm_type` is above 0."""
    norm = as_float(op, "norm_type", norm_type)
    check(op, max_norm is None or norm > 0, lambda: f"norm_type is {norm_type}, expected a number above 0")
    return None if max_norm is None else as_float(op, "max_norm", max_norm), norm


def _norms(rows: Tensor, p: float, contract: str) -> Tensor:
    """The p-norm of each row, `(V, D) -> (V, 1)`."""
    size = _ops.abs(rows)
    if math.isinf(p):
        return _ops.max_dim(size, 1, True)[0]
    powers = size if p == 1 else _ops.square(rows) if p == 2 else pow(size, p, contract=contract)
    total = _ops.sum(powers, [1], True, contract)
    return total if p == 1 else _ops.sqrt(total) if p == 2 else pow(total, div(1.0, p), contract=contract)


def renorm(weight: Tensor, index: Tensor, max_norm: float, norm_type: float, contract: str) -> None:
    """Give each row of `weight` that `index` names, and whose norm is above `max_norm`, about that norm, in place.

    `row * (max_norm / (norm + 1e-7))`, each operation an op of elementwise.md; 16-bit floats are rounded once.
    """
    do_not_cache()
    if weight.numel() == 0 or index.numel() == 0:
        return
    with torch.no_grad():
        table, flat = weight.detach(), index.reshape(-1)
        compiling = torch.compiler.is_compiling()  # unique rows are of a number that depends on values
        rows = torch.arange(table.shape[0], device=table.device) if compiling else flat.unique()
        storage, (wide,) = widened(table[rows])
        most, little = (constant(v, wide.dtype, wide.device) for v in (max_norm, 1e-7))
        norms = _norms(wide, norm_type, contract)
        scaled = _ops.mul(wide, _ops.div(most, _ops.add(norms, little, contract), contract), contract)
        long = less_than(most, norms, contract)
        if compiling:
            long = long & torch.zeros_like(long).index_fill(0, flat, True)
        table.index_copy_(0, rows, torch.where(long, narrowed(scaled, storage), table[rows]))


@computes("embedding_renorm_")
def _aten_embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    norm, p = check_norm("embedding_renorm_", max_norm, norm_type)
    assert norm is not None
    renorm(weight, indices, norm, p, contract_name(None))
    return weight
