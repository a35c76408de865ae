"""Registered ops: what each is, and all of them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from repdl.dtypes import PrecisionRules

IsSlope = bool | Callable[..., bool]


@dataclass(frozen=True)
class Op:
    """One registered op: `name` as in `torch.ops.repdl.<name>`, `family` as in the
    names of its files (contract text, reference, kernels, tests). `differentiable` is
    None for an op that changes its arguments or is constant: nobody asks for its derivative.
    `formula` is what an op computes by the ops that it `calls`: a backend with those has it, and may have a kernel
    with the same bits besides.
    `host` has the arguments whose values the host reads, on the CPU wherever the others are.
    `fixed` are tensors without a derivative; `is_slope` says, of arguments, whether that of the others is the slope of
    the op's values, or is a bool for all."""

    name: str
    family: str
    schema: str
    check: Callable[..., None]
    fake: Callable[..., Any]
    overload: torch._ops.OpOverload = field(repr=False)
    distribution: str = "repdl-core"
    storage: PrecisionRules | None = field(default=None, repr=False)
    differentiable: bool | None = True
    formula: Callable[..., Any] | None = field(default=None, repr=False)
    calls: frozenset[str] = frozenset()
    host: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    is_slope: IsSlope = True

    @property
    def has_order(self) -> bool:
        """Whether the op takes a contract: one without gives the same bits under all."""
        return "str contract" in self.schema

    @property
    def mutates(self) -> bool:
        """Whether the op changes its arguments, as an optimizer's step does."""
        return self.overload._schema.is_mutable

    @property
    def takes_lists(self) -> bool:
        """Whether some of the arguments are lists of tensors."""
        return any(str(argument.type) == "List[Tensor]" for argument in self.overload._schema.arguments)

    def takes(self, dtype: torch.dtype) -> bool:
        """Whether the op takes tensors of a floating-point dtype; for one without `dtypes`, its check decides."""
        return self.storage is None or dtype in self.storage.dtypes.supported


OPS: dict[str, Op] = {}


def in_float64(ops: Iterable[str]) -> list[str]:
    """Those of the ops that take float64: what a backend with a kernel for each of them claims."""
    return [op for op in ops if OPS[op].takes(torch.float64)]


def outputs(op: str) -> Callable[..., Any]:
    """The function that allocates the outputs of a registered op from its arguments."""
    return OPS[op].fake
