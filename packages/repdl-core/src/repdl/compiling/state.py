"""What compiled code holds for, beside the arguments of a call: it is compiled again where this is another."""

from __future__ import annotations

from repdl.contract import contract_name

UNCOVERED = ""
"""What happens with uncovered ops while `repdl.enable()` holds, "raise" or "warn"; "" where it does not hold.

Dynamo's guards read it, as they read the default contract.
"""


def hold(on_uncovered: str) -> None:
    """Say what holds from now on."""
    global UNCOVERED
    UNCOVERED = on_uncovered


def now() -> tuple[str, str]:
    """All of it, with what the thread says of it."""
    return UNCOVERED, contract_name(None)


__all__ = ["UNCOVERED", "hold", "now"]
