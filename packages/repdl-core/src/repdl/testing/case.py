"""What a case is: a call of a registered op, with arguments that are the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from repdl.registry import OPS


@dataclass(frozen=True)
class Case:
    """A call of a registered op: `op`, a name for the case, and its arguments.

    `make` builds the arguments afresh, without the contract, with floating-point tensors in
    float32: ops that change their arguments can then be run twice.

    Args:
        dtypes: those beside float32 that a case is derived in, where the op takes them.
        mixed: whether one is derived with bfloat16 operands and float32 parameters, too.
        derived: of a derived case, its storage dtype; None: it is written as it stands.
    """

    op: str
    name: str
    make: Callable[[], tuple[Any, ...]]
    dtypes: tuple[torch.dtype, ...] = ()
    mixed: bool = False
    derived: torch.dtype | None = None

    def args(self, contract: str = "v1") -> tuple[Any, ...]:
        """The arguments, with `contract` last where the schema has one."""
        return (*self.make(), contract) if OPS[self.op].has_order else self.make()

    def __str__(self) -> str:
        return f"{self.op}__{self.name}"
