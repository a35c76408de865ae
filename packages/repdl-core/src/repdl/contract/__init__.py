"""The reproducibility contract: which order every reduction follows.

The text of each op is beside this file, `v1/<op>.md`, and its golden bits are
`v1/<op>.json`. What an order may vary in is a field of `Contract`; everything
else is fixed by the text. Bits never change within a contract version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from repdl.errors import ContractError
from repdl.settings.scopes import Setting


@dataclass(frozen=True)
class Contract:
    """The parameters of every accumulation order.

    Args:
        dot_chunk: length of one fma chain of a dot product, in elements of the
            reduced index; 0 means one chain over the whole index.
        sum_lanes: number of interleaved chains of a sum, a power of two, at most 64.
        sum_block: length of one block of a sum, a multiple of `sum_lanes`; 0 means
            one block over the whole index.

    `str(contract)` names it, and `Contract.parse` reads that name back: it is the
    form in which every op carries its contract.
    """

    dot_chunk: int = 256
    sum_lanes: int = 64
    sum_block: int = 1024

    def __post_init__(self) -> None:
        if self.dot_chunk < 0:
            raise ContractError(
                f"Contract: dot_chunk is {self.dot_chunk}, expected 0 (one chain) or more"
            )
        if self.sum_lanes not in (1, 2, 4, 8, 16, 32, 64):
            raise ContractError(
                f"Contract: sum_lanes is {self.sum_lanes}, expected 1, 2, 4, 8, 16, 32 or 64"
            )
        if self.sum_block < 0 or self.sum_block % self.sum_lanes:
            raise ContractError(
                f"Contract: sum_block is {self.sum_block}, expected 0 (one block) or a "
                f"multiple of sum_lanes = {self.sum_lanes}"
            )

    def __str__(self) -> str:
        return _names().get(self) or ",".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self))

    @staticmethod
    @cache
    def parse(text: str) -> Contract:
        """Read `v1`, `sequential` or `dot_chunk=256,sum_lanes=64,sum_block=1024`.

        Raises:
            ContractError: if the text names no contract.
        """
        if text in NAMED:
            return NAMED[text]
        try:
            pairs = dict(part.split("=") for part in text.split(","))
            return Contract(**{key: int(value) for key, value in pairs.items()})
        except ContractError:  # says which field is wrong
            raise
        except (TypeError, ValueError):
            raise ContractError(
                f"Contract: {text!r} is not a contract, expected one of "
                f"{', '.join(NAMED)}, or 'dot_chunk=N,sum_lanes=N,sum_block=N'"
            ) from None


v1 = Contract()
"""The default: chains of 256 and sums of 64 lanes by 1024, joined by a binary tree."""

sequential = Contract(dot_chunk=0, sum_lanes=1, sum_block=0)
"""One chain from the first element to the last: the order of Microsoft RepDL 0.1.1."""

ANY_CONTRACT = "v1"
"""What calls are made under whose result is the same under every contract: no operand with a gradient broadcasts."""

if TYPE_CHECKING:
    ContractLike = Any
else:
    ContractLike = Contract | str | None
    """The argument `contract` of a public function: callers give a contract, its name or None, and the function gets
    the name of the one that holds (`repdl.ops.declare.public`)."""

NAMED = {"v1": v1, "sequential": sequential}


@cache
def _names() -> dict[Contract, str]:
    return {contract: name for name, contract in NAMED.items()}


def as_contract(contract: Contract | str) -> Contract:
    """`contract` as a `Contract`, whichever way it was named."""
    return contract if isinstance(contract, Contract) else Contract.parse(contract)


def _of_environment() -> Contract:
    """What `REPDL_CONTRACT` names."""
    try:
        return Contract.parse(os.environ.get("REPDL_CONTRACT") or "v1")
    except ContractError as error:
        raise ContractError(str(error).replace("Contract:", "REPDL_CONTRACT:", 1)) from None


def _default() -> str:
    """The same as text; an empty one if it names none, which the first use then says."""
    try:
        return str(_of_environment())
    except ContractError:
        return ""


_setting = Setting("repdl.contract", _default())


def get_contract() -> Contract:
    """The contract that ops follow when none is passed: that of the innermost `use_contract`
    block, else what `set_contract` chose, else the environment variable `REPDL_CONTRACT`, else `v1`."""
    return Contract.parse(contract_name(None))


def contract_name(contract: Contract | str | None) -> str:
    """The name of `contract`, or of the current one if it is None."""
    if contract is None:
        return _setting.get() or str(_of_environment())
    if isinstance(contract, str) and contract in NAMED:
        return contract
    return str(as_contract(contract))


def default_contract() -> Contract:
    """The process-wide default, whatever `use_contract` blocks are open."""
    return Contract.parse(_setting.default) if _setting.default else _of_environment()


def set_contract(contract: Contract | str) -> None:
    """Make `contract` the process-wide default, in every thread; `use_contract` blocks go before it.

    Processes that are started afterwards, such as the workers of a DataLoader, have it too:
    it is passed on as `REPDL_CONTRACT`.

    Raises:
        ContractError: if it names no contract.
    """
    os.environ["REPDL_CONTRACT"] = str(as_contract(contract))
    _setting.set_default(os.environ["REPDL_CONTRACT"])


@contextmanager
def use_contract(contract: Contract | str) -> Iterator[Contract]:
    """Make `contract` the default inside a `with` block, in the thread or async task that enters it.

    Each op carries its own contract as an argument, so a backward pass follows the contract
    of its forward wherever it runs. Threads that are started inside begin with the process-wide
    default (`set_contract`), async tasks and forked processes with this one.
    """
    chosen = as_contract(contract)
    with _setting.set(str(chosen)):
        yield chosen


__all__ = [
    "ANY_CONTRACT",
    "Contract",
    "ContractLike",
    "as_contract",
    "contract_name",
    "default_contract",
    "get_contract",
    "sequential",
    "set_contract",
    "use_contract",
    "v1",
]
