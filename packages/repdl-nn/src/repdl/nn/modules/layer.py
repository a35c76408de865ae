"""What every layer adds to torch's class of the same name: the contract it follows."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Proxy, _symbolic_trace

from repdl.contract import Contract, as_contract
from repdl.generators.generator import chosen
from repdl.nn.init import reset_affine
from repdl.random import Generator, default_generator, initialises

call = torch.nn.Module.__call__
_is_tracing = getattr(_symbolic_trace, "is_fx_symbolic_tracing", _symbolic_trace.is_fx_tracing)
"""The first is there since torch 2.9, whose `is_fx_tracing` warns."""


class Layer(torch.nn.Module):
    """Mixin of every reproducible layer: `class Linear(Layer, torch.nn.Linear)`.

    Constructor, attributes and state dict are those of the torch class; a layer overrides
    `forward`, and `reset_parameters` where that draws. Initial values are drawn by
    `repdl.random`, with torch's distributions, if `generator` is given or
    `repdl.random.manual_seed` was called (`repdl.random.initialises`); else by torch's own
    code, whose numbers depend on the machine.

    Args:
        contract: keyword-only; the `repdl.Contract` that the layer follows, or its name.
            None, the default, is the process-wide one at the time of the call. It is an
            attribute, not part of the state dict.
        generator: keyword-only; the `repdl.random.Generator` that the layer draws from. None,
            the default, is the one of the process. An attribute too.

    Raises:
        ContractError: if `contract` names none.
        ArgumentError: if `generator` is none of repdl.
    """

    contract: str | None = None
    generator: Generator | None = None

    def __init__(
        self,
        *args: Any,
        contract: Contract | str | None = None,
        generator: Generator | None = None,
        **kwargs: Any,
    ) -> None:
        contract = canonical(contract)
        chosen(type(self).__name__, generator)
        object.__setattr__(self, "contract", contract)  # for what torch's constructor calls, reset_parameters
        object.__setattr__(self, "generator", generator)
        before = torch.default_generator.get_state() if self._draws() is not None else None
        super().__init__(*args, **kwargs)
        if before is not None:  # torch's constructors of parts may have drawn what is replaced
            torch.default_generator.set_state(before)

    def _draws(self) -> Generator | None:
        """The generator that `reset_parameters` draws from; None: torch's own code initialises the layer."""
        if not initialises(self.generator):
            return None
        return default_generator if self.generator is None else self.generator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # torch.fx takes the layers of torch.nn as leaves, by the name of their module: ours as well.
        if _is_tracing():
            for value in (*args, *kwargs.values()):
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


class Affine(Layer):
    """A layer with a weight and a bias, both drawn anew by `reset_parameters`."""

    weight: Any  # which torch's classes declare differently
    bias: Any

    def reset_parameters(self) -> None:
        """Draw weight and bias (see `Layer`)."""
        generator = self._draws()
        if generator is None:
            super().reset_parameters()  # type: ignore[misc]
        else:
            reset_affine(self.weight, self.bias, generator)


def canonical(contract: Contract | str | None) -> str | None:
    """The name of `contract`, checked; None stays None."""
    return None if contract is None else str(as_contract(contract))


__all__ = ["Layer"]
