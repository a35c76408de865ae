"""Arguments for every registered op: one module a family, one list of cases an op.

Golden bits, the parity of backends and `torch.library.opcheck` all run over these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from warnings import warn

import torch

from repdl.errors import BrokenPluginWarning
from repdl.families import families
from repdl.registry import OPS
from repdl.testing.dtypes import DOUBLE, EVERY, derived

__all__ = ["DOUBLE", "EVERY", "Case", "cases", "with_derived"]


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


def cases(family: str | None = None) -> list[Case]:
    """All cases of one family, or of every family, and after each those that other dtypes make of it.

    Of every family, those of installed plug-ins included, one whose cases cannot be loaded is
    left out with a `BrokenPluginWarning`; of one family, that error is raised.
    """
    if family is not None:
        return with_derived(families()[family].cases() or [])
    found: list[Case] = []
    for one in families().values():
        try:
            found += with_derived(one.cases() or [])
        except Exception as error:
            warn(
                f"{one.distribution}: the cases of {one.name} failed to load: {error!r}",
                BrokenPluginWarning, stacklevel=2,
            )  # fmt: skip
    return found


def with_derived(written: Iterable[Case]) -> list[Case]:
    """Cases, and after each those that other dtypes make of it."""
    return [case for one in written for case in (one, *derived(one))]
