"""Arguments for every registered op: one module a family, one list of cases an op.

Golden bits, the parity of backends and `torch.library.opcheck` all run over these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from repdl.registry import OPS
from repdl.testing.dtypes import derived


@dataclass(frozen=True)
class Case:
    """A call of a registered op: `op`, a name for the case, and its arguments.

    `make` builds the arguments afresh, without the contract: ops that change their
    arguments can then be run twice. `derived` cases are written ones in another dtype.
    """

    op: str
    name: str
    make: Callable[[], tuple[Any, ...]]
    slow: bool = False
    derived: bool = False

    def args(self, contract: str = "v1") -> tuple[Any, ...]:
        """The arguments, with `contract` last where the schema has one."""
        takes_contract = "str contract" in OPS[self.op].schema
        return (*self.make(), contract) if takes_contract else self.make()

    def __str__(self) -> str:
        return f"{self.op}__{self.name}"


def cases(family: str | None = None) -> list[Case]:
    """All cases of one family, or of every family, and after each those that other dtypes make of it."""
    families = [family] if family else sorted({op.family for op in OPS.values()})
    written = [case for name in families for case in import_module(f"{__name__}.{name}").CASES]
    return [case for one in written for case in (one, *derived(one))]
