"""What every layer adds to torch's class of the same name: the contract it follows."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Proxy

from repdl.contract import Contract, as_contract

call = torch.nn.Module.__call__


class Layer(torch.nn.Module):
    """Mixin of every reproducible layer: `class Linear(Layer, torch.nn.Linear)`.

    Constructor, initialisation, attributes and state dict are those of the torch class;
    a layer overrides `forward` alone. Initial values are drawn by torch's generator.

    Args:
        contract: keyword-only; the `repdl.Contract` that the layer follows, or its name.
            None, the default, is the process-wide one at the time of the call. It is an
            attribute, not part of the state dict.

    Raises:
        ContractError: if `contract` names none.
    """

    contract: str | None = None

    def __init__(self, *args: Any, contract: Contract | str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.contract = canonical(contract)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # torch.fx takes the layers of torch.nn as leaves, by the name of their module: ours as well.
        for value in args if not kwargs else (*args, *kwargs.values()):
            if isinstance(value, Proxy):
                tracer = value.tracer
                return tracer.create_proxy("call_module", tracer.path_of_module(self), args, kwargs)  # type: ignore[attr-defined]
        return call(self, *args, **kwargs)

    def extra_repr(self) -> str:
        """torch's text, followed by the contract when one is set."""
        text = super().extra_repr()
        if self.contract is None:
            return text
        return f"{text}, contract={self.contract!r}" if text else f"contract={self.contract!r}"


def canonical(contract: Contract | str | None) -> str | None:
    """The name of `contract`, checked; None stays None."""
    return None if contract is None else str(as_contract(contract))


__all__ = ["Layer"]
