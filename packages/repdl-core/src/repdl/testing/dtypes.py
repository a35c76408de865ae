"""Cases in other dtypes, made from the float32 ones of each op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from repdl.dtypes import HALF
from repdl.reference.cast import cast
from repdl.registry import OPS

if TYPE_CHECKING:
    from repdl.testing.cases import Case

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float64: "f64"}


def in_dtype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A float32 tensor in another dtype, with its strides: rounded to a half, or as a double
    that has all of its 53 bits and the subnormal and large numbers of float64."""
    if dtype is torch.float64:
        y = x.double()
        y = y + y * 2.0**-29
        y = torch.where(x.abs() < 2.0**-120, x.double() * 2.0**-925, y)
        y = torch.where((x.abs() >= 2.0**100) & x.isfinite(), x.double() * 2.0**896, y)
    else:
        y = cast(x, dtype)
    return torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(y) if not _expanded(x) else y


def _expanded(x: torch.Tensor) -> bool:
    return any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride()))


def convert(op: str, args: Sequence[Any], dtype: torch.dtype) -> tuple[Any, ...]:
    """The arguments of an op with the storage dtype `dtype`; statistics stay float32 beside halves."""
    storage = OPS[op].storage
    if storage is None:  # an optimizer's step: lists of tensors
        return tuple([in_dtype(t, dtype) for t in a] if isinstance(a, list) else a for a in args)
    kept = storage.dtypes.statistics if dtype in HALF else ()
    return tuple(
        in_dtype(a, dtype) if i in storage.floats and a is not None and storage.names[i] not in kept else a
        for i, a in enumerate(args)
    )


def supported(op: str) -> tuple[torch.dtype, ...]:
    """The dtypes beside float32 that an op takes."""
    storage = OPS[op].storage
    if storage is None:
        return (torch.float64,) if op in ("adam_step", "sgd_step") else ()
    return tuple(dtype for dtype in NAMES if dtype in storage.dtypes.supported)


HALVES = {
    *("special", "special_overlap", "values", "strided", "plain", "plain_weight_bias", "bias", "k_513", "row_1025"),
    *("2x65", "train_running_weight_bias", "mean_weighted_ignored", "overlap", "collide", "reflect_dim1", "empty"),
    *("values_0", "values_1", "special_0"),
    *("2x4x3x7_groups_2", "three_ties", "rows", "columns", "transposed", "train_70x5", "batched_broadcast"),
}
"""The cases that are made in bfloat16 and float16 too."""

DOUBLE = {
    *HALVES,
    *("permuted", "expanded", "subnormal", "constant", "dim_0", "scalar_other", "outer", "not_wider", "size_65"),
    *("fused_not_rounded_twice", "underflow_keeps_sign", "k_257", "batched", "bias_after_the_chain", "groups"),
    *("padding_uneven", "depthwise_stride", "k_over_chunk", "train_3x4x7", "eval_running_weight_bias", "no_weight"),
    *("2x1025", "1025x2", "70x17", "63x4x1_groups_2", "2x4x512_groups_2", "2x2x1025_groups_2", "row_65", "row_5000"),
    *("column_65", "columns_10", "columns_130", "dims_0_2", "channels", "all_of_three_blocks", "keepdim", "threads"),
    *("size_1025", "mean", "none_weighted", "dims_sum_weighted", "rows_1025", "ceil", "dilated", "circular_dim2"),
    *("replicate_far", "beta1_0.9_decay_amsgrad", "beta1_0.9_decoupled_maximize", "mixed_layouts", "special_amsgrad"),
    *("beta1_0.9_decoupled_amsgrad", "momentum_0.0_dampening_0.0", "momentum_0.0_dampening_0.0_decay"),
    *("momentum_0.9_dampening_0.3_first", "momentum_0.9_dampening_0.3_first_decay", "rows_5000x3"),
    *("momentum_0.9_dampening_0.0_nesterov_first", "momentum_0.9_dampening_0.0_nesterov_first_decay", "all_minus_inf"),
    *("momentum_0.9_dampening_0.3_decay", "momentum_0.9_dampening_0.0_nesterov", "special_nesterov", "overflow"),
}
"""Those that are made in float64 too."""


def mixed(op: str, args: Sequence[Any], dtype: torch.dtype) -> tuple[Any, ...]:
    """As `convert`, the parameters staying float32."""
    storage = OPS[op].storage
    assert storage is not None
    names = {name for group in storage.dtypes.parameters for name in group}
    return tuple(a if storage.names[i] in names else b for i, (a, b) in enumerate(zip(args, convert(op, args, dtype))))


def derived(case: Case) -> Iterator[Case]:
    """The case in the other dtypes that its op takes."""
    storage = OPS[case.op].storage
    for dtype in supported(case.op):
        if case.name in (DOUBLE if dtype is torch.float64 else HALVES):
            make = partial(_made, convert, case, dtype)
            yield replace(case, name=f"{case.name}_{NAMES[dtype]}", make=make, derived=True)
        if dtype is torch.bfloat16 and case.name in MIXED and storage is not None and storage.dtypes.parameters:
            yield replace(case, name=f"{case.name}_mixed", make=partial(_made, mixed, case, dtype), derived=True)


MIXED = {"plain_weight_bias", "2x65", "train_running_weight_bias", "train_70x5", "mean_weighted_ignored"}
"""Those that are made with float32 parameters beside bfloat16 operands too."""


def _made(conversion: Callable[..., tuple[Any, ...]], case: Case, dtype: torch.dtype) -> tuple[Any, ...]:
    return conversion(case.op, case.make(), dtype)
