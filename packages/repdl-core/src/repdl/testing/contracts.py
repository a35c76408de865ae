"""Which contracts the registered ops of a call take: an explicit one must reach all of them."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from repdl.registry import OPS

_UNORDERED = frozenset({"add", "div", "embedding", "mul", "sub", "where"})
"""Those that derivatives and compositions call with a contract that changes nothing."""


class ContractsTaken(TorchDispatchMode):
    """For a `with` block: the contract of each registered op that is called in it, forward and backward.

    Attributes:
        taken: pairs of an op's name and a contract's, in the order of the calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[str, str]] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        registered = OPS.get(getattr(op, "_opname", ""))
        if registered is not None and registered.overload is op:
            schema, given = op._schema.arguments, kwargs or {}
            place = next((i for i, argument in enumerate(schema) if argument.name == "contract"), None)
            if place is not None:
                self.taken.append((registered.name, str(args[place] if place < len(args) else given["contract"])))
        return op(*args, **(kwargs or {}))

    def others(self, contract: str) -> set[tuple[str, str]]:
        """Those that took another one; a constant `v1` is none of ops that compute each element on its own."""
        return {(op, name) for op, name in self.taken if name != contract and (op not in _UNORDERED or name != "v1")}


__all__ = ["ContractsTaken"]
