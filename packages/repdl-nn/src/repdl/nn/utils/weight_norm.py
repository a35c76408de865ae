"""`weight_norm` as a hook, as torch had it first, and its formula.

`parametrizations.weight_norm` is the newer one. Both have the bits of `normed`.
"""

from __future__ import annotations

import warnings
from typing import TypeVar

import torch
from torch.nn.utils.weight_norm import WeightNorm as _WeightNorm, remove_weight_norm

from repdl import ops
from repdl.contract import Contract, contract_name
from repdl.errors import ArgumentError, UnsupportedError
from repdl.nn.modules.layer import canonical

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

Tensor = torch.Tensor
M = TypeVar("M", bound=torch.nn.Module)


def norm_except(v: Tensor, dim: int, contract: str) -> Tensor:
    """`vector_norm(v)` over all dimensions but `dim`, which are kept with size 1; over all of them, 0-D, with -1."""
    if dim == -1:
        return ops.vector_norm(v, contract=contract)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    if not others:  # a vector is its own magnitudes
        return ops.abs(v)
    return ops.vector_norm(v, dim=others, keepdim=True, contract=contract)


def normed(v: Tensor, g: Tensor, dim: int, contract: str) -> Tensor:
    """`v * (g / norm_except(v, dim))`, each operation of the contract."""
    return ops.mul(v, ops.div(g, norm_except(v, dim, contract), contract=contract), contract=contract)


class WeightNorm(_WeightNorm):
    """torch's hook, which computes a weight of magnitudes and directions before each call, by `normed`."""

    contract: str | None = None

    def compute_weight(self, module: torch.nn.Module) -> Tensor:
        """The weight."""
        v, g = getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g")
        return normed(v, g, self.dim, contract_name(self.contract))

    @staticmethod
    def apply(module: torch.nn.Module, name: str, dim: int | None, contract: str | None = None) -> WeightNorm:  # type: ignore[override]
        """Register the hook; returns it."""
        if any(isinstance(hook, _WeightNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"weight_norm: {name} has a weight_norm hook already, expected none")
        weight = getattr(module, name, None)
        if isinstance(weight, torch.nn.UninitializedParameter):
            raise UnsupportedError(f"weight_norm: {name} is uninitialised; call the module once first")
        if not isinstance(weight, Tensor):
            raise ArgumentError(f"weight_norm: {name} is {type(weight).__name__}, expected a parameter of the module")
        hook = WeightNorm(name, dim)  # type: ignore[arg-type]
        hook.contract = contract
        norm = norm_except(weight.detach(), hook.dim, contract_name(contract))
        del module._parameters[name]
        module.register_parameter(f"{name}_g", torch.nn.Parameter(norm))
        module.register_parameter(f"{name}_v", torch.nn.Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook


def weight_norm(module: M, name: str = "weight", dim: int | None = 0, *, contract: Contract | str | None = None) -> M:
    """Compute a weight as `v * (g / norm(v))` before each call of `module`, by a hook; returns the module.

    g is the parameter `<name>_g`, v is `<name>_v`; the norm is over all dimensions but `dim`, over all with None.
    Deprecated as in torch: `parametrizations.weight_norm` is the newer one, and takes its state dicts.

    Raises:
        RuntimeError: if the weight has such a hook.
        UnsupportedError, ArgumentError: if it is not initialised, or none.

    Contract: norm v1. Source: https://arxiv.org/abs/1602.07868
    """
    warnings.warn(
        "weight_norm is deprecated, as in torch; call repdl.nn.utils.parametrizations.weight_norm",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim, canonical(contract))
    return module
