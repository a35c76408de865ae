"""Cases in other dtypes, made from the float32 ones of each op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from repdl.dtypes import FLOATS_16_BIT
from repdl.reference.pointwise.cast import cast
from repdl.registry import OPS
from repdl.testing.case import Case

DOUBLE = (torch.float64,)
EVERY = (*FLOATS_16_BIT, torch.float64)
"""The usual `Case.dtypes`: float64 has kernels of its own, 16-bit floats those of float32 between casts."""

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float64: "f64"}


def in_dtype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A float32 tensor in another dtype, with its strides: rounded to a 16-bit float, or as a double
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
    """The arguments of an op with the storage dtype `dtype`; statistics stay float32 beside 16-bit floats."""
    storage = OPS[op].storage
    if storage is None:  # an optimizer's step: lists of tensors
        return tuple([in_dtype(t, dtype) for t in a] if isinstance(a, list) else a for a in args)
    kept = storage.dtypes.statistics if dtype in FLOATS_16_BIT else ()
    return tuple(
        in_dtype(a, dtype) if i in storage.floats and a is not None and storage.names[i] not in kept else a
        for i, a in enumerate(args)
    )


def mixed(op: str, args: Sequence[Any], dtype: torch.dtype) -> tuple[Any, ...]:
    """As `convert`, the parameters staying float32."""
    storage = OPS[op].storage
    assert storage is not None
    names = {name for group in storage.dtypes.parameters for name in group}
    return tuple(a if storage.names[i] in names else b for i, (a, b) in enumerate(zip(args, convert(op, args, dtype))))


def derived(case: Case) -> Iterator[Case]:
    """The case in the dtypes that it names, of those that its op takes."""
    for dtype, suffix in NAMES.items():
        if dtype in case.dtypes and OPS[case.op].takes(dtype):
            yield _made(case, suffix, dtype, convert)
        if dtype is torch.bfloat16 and case.mixed:
            yield _made(case, "mixed", dtype, mixed)


def _made(case: Case, suffix: str, dtype: torch.dtype, conversion: Callable[..., tuple[Any, ...]]) -> Case:
    return replace(
        case,
        name=f"{case.name}_{suffix}",
        make=lambda: conversion(case.op, case.make(), dtype),
        dtypes=(),
        mixed=False,
        derived=dtype,
    )
