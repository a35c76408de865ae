"""`spectral_norm` as a hook, as torch had it first, and its formulas.

`parametrizations.spectral_norm` is the newer one; it takes the two halves of an iteration in the other order.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch.nn.utils.spectral_norm import (
    SpectralNorm as _SpectralNorm,
    SpectralNormLoadStateDictPreHook,
    SpectralNormStateDictHook,
    remove_spectral_norm,
)

from repdl import ops, random
from repdl.contract import Contract, contract_name
from repdl.errors import ArgumentError, OutOfRangeError, UnsupportedError
from repdl.generators.generator import chosen
from repdl.nn.modules.layer import canonical
from repdl.random import Generator, initialises
from repdl.registry.arguments import as_int

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

Tensor = torch.Tensor
M = TypeVar("M", bound=torch.nn.Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """`weight` with `dim` as rows, and all others, in their order, as columns."""
    return weight.movedim(dim, 0).flatten(1)


def unit(vector: Tensor, eps: float, contract: str) -> Tensor:
    """`normalize(vector)` (`distance.md`)."""
    return ops.normalize(vector, dim=0, eps=eps, contract=contract)


def drawn(matrix: Tensor, eps: float, contract: str, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """`normalize` of normal numbers: one for each row, then one for each column.

    They are drawn as the initial values of layers: by `repdl.random` if `generator` is given or it was seeded, else
    by torch.
    """
    vectors = [matrix.new_empty(size) for size in matrix.shape]
    for vector in vectors:
        if initialises(generator):
            random.normal_(vector, generator=generator)
        else:
            vector.normal_(0, 1)
    u, v = (unit(vector, eps, contract) for vector in vectors)
    return u, v


def divided(weight: Tensor, matrix: Tensor, u: Tensor, v: Tensor, contract: str) -> Tensor:
    """`weight / dot(u, mv(matrix, v))`."""
    sigma = ops.dot(u, ops.mv(matrix, v, contract=contract), contract=contract)
    return ops.div(weight, sigma, contract=contract)


def dimension(module: torch.nn.Module) -> int:
    """That of the outputs in a weight of `module`."""
    transposed = torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d
    return 1 if isinstance(module, transposed) else 0


class SpectralNorm(_SpectralNorm):
    """torch's hook, which divides a weight by an estimate of its largest singular value before each call.

    With W the weight as a matrix, an iteration, in training only: `v = normalize(mv(W.T, u))`, then
    `u = normalize(mv(W, v))`. The weight is then `weight / dot(u, mv(W, v))`.
    """

    contract: str | None = None

    def compute_weight(self, module: torch.nn.Module, do_power_iteration: bool) -> Tensor:
        """The weight, after iterations if `do_power_iteration`."""
        order = contract_name(self.contract)
        weight, u, v = (getattr(module, f"{self.name}_{kind}") for kind in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(unit(ops.mv(matrix.t(), u, contract=order), self.eps, order))
                    u.copy_(unit(ops.mv(matrix, v, contract=order), self.eps, order))
        return divided(weight, matrix, u.clone(), v.clone(), order)  # copies: a later call changes u and v

    def _solve_v_and_rescale(self, *args: Any) -> Tensor:
        raise UnsupportedError(
            "spectral_norm: the state dict is of torch before 1.0.1, without v, which needs a pseudoinverse; "
            "load it into torch's module and save that"
        )

    @staticmethod
    def apply(  # type: ignore[override]
        module: torch.nn.Module,
        name: str,
        n_power_iterations: int,
        dim: int,
        eps: float,
        contract: str | None = None,
        generator: Generator | None = None,
    ) -> SpectralNorm:
        """Register the hook; returns it."""
        if any(isinstance(hook, _SpectralNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"spectral_norm: {name} has a spectral_norm hook already, expected none")
        weight = module._parameters.get(name)
        if isinstance(weight, torch.nn.UninitializedParameter):
            raise UnsupportedError(f"spectral_norm: {name} is uninitialised; call the module once first")
        if weight is None:
            raise ArgumentError(f"spectral_norm: {name} is None, expected a parameter of the module")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        hook.contract = contract
        u, v = drawn(as_matrix(weight.detach(), dim), eps, contract_name(contract), generator)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
    *,
    contract: Contract | str | None = None,
    generator: Generator | None = None,
) -> M:
    """Divide a weight by an estimate of its largest singular value before each call, by a hook; returns the module.

    See `SpectralNorm` for the formula. The first vectors are normal numbers, normalised, which are drawn as the
    initial values of layers; `parametrizations.spectral_norm` is the newer one.

    Args:
        module: what has the parameter `name`.
        name: of the parameter.
        n_power_iterations: iterations of the power method in each call in training mode.
        eps: what a norm below it counts as.
        dim: of the outputs; None is 1 for transposed convolutions, else 0.
        contract: the orders of the products and sums.
        generator: what the first vectors are drawn from.

    Raises:
        RuntimeError: if the weight has such a hook.
        OutOfRangeError: if there are no iterations.
        UnsupportedError, ArgumentError: if the weight is not initialised, or none.

    Contract: matmul v1, distance v1. Source: https://arxiv.org/abs/1802.05957
    """
    check_iterations(n_power_iterations)
    chosen("spectral_norm", generator)
    at = dimension(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, at, eps, canonical(contract), generator)
    return module


def check_iterations(number: int) -> None:
    """Raise unless there is an iteration."""
    if as_int("spectral_norm", "n_power_iterations", number) <= 0:
        raise OutOfRangeError(f"spectral_norm: n_power_iterations is {number}, expected 1 or more")
