"""`weight_norm`, `spectral_norm` and `orthogonal` as parametrizations: those of `torch.nn.utils.parametrizations`.

Their modules are torch's, with the forward pass of a contract, so that `from_torch_module` gives a model with torch's
parametrizations these; state dicts are the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import torch
from torch.nn.utils import parametrizations as torchs, parametrize

from repdl import ops
from repdl.contract import Contract, contract_name
from repdl.errors import OutOfRangeError, ShapeError, UnsupportedError
from repdl.nn import orthogonal_maps
from repdl.nn.modules.layer import Layer
from repdl.nn.utils.spectral_norm import as_matrix, check_iterations, dimension, divided, drawn, unit
from repdl.nn.utils.weight_norm import norm_except, normed
from repdl.random import Generator

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

Tensor = torch.Tensor
M = TypeVar("M", bound=torch.nn.Module)
MAPS = ("matrix_exp", "cayley", "householder")


class WeightNorm(Layer, torchs._WeightNorm):
    """A weight of magnitudes g and directions v: `v * (g / norm(v))`, the norm over all dimensions but one.

    Contract: norm v1. Source: https://arxiv.org/abs/1602.07868
    """

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The weight."""
        return normed(weight_v, weight_g, self.dim, contract_name(self.contract))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Magnitudes and directions of a weight: its norms, and itself."""
        return norm_except(weight, self.dim, contract_name(self.contract)), weight


class _Estimated(torchs._SpectralNorm):
    """torch's module, whose first vectors are those of a contract."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        torch.nn.Module.__init__(self)
        if not -weight.dim() <= dim < weight.dim():
            raise OutOfRangeError(f"spectral_norm: dim is {dim}, expected {-weight.dim()} to {weight.dim() - 1}")
        check_iterations(n_power_iterations)
        self.dim, self.eps = dim % weight.dim(), eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            layer: Any = self
            u, v = drawn(matrix, eps, contract_name(layer.contract), layer.generator)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            self._power_method(matrix, 15)


class SpectralNorm(Layer, _Estimated):
    """A weight divided by an estimate of its largest singular value, in training after iterations.

    With W the weight as a matrix, an iteration is `u = normalize(mv(W, v))`, then `v = normalize(mv(W.T, u))`; 15 of
    them come first. The result is `weight / dot(u, mv(W, v))`; that of a vector is `normalize(weight)`.

    Contract: matmul v1, distance v1. Source: https://arxiv.org/abs/1802.05957
    """

    @torch.no_grad()
    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        order = contract_name(self.contract)
        for _ in range(n_power_iterations):
            self._u.copy_(unit(ops.mv(weight_mat, self._v, contract=order), self.eps, order))
            self._v.copy_(unit(ops.mv(weight_mat.t(), self._u, contract=order), self.eps, order))

    def forward(self, weight: Tensor) -> Tensor:
        """The weight, divided."""
        order = contract_name(self.contract)
        if weight.dim() == 1:
            return unit(weight, self.eps, order)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        return divided(weight, matrix, self._u.clone(), self._v.clone(), order)  # copies: a later call changes both


class Orthogonal(Layer, torchs._Orthogonal):
    """An orthogonal matrix, of any: columns of length 1 at right angles, or rows if there are more columns.

    With X the matrix, transposed if it has more columns than rows, filled with zero columns to a square if need be,
    and A = `tril(X) - tril(X).T`, Q is `matrix_exp(A)`, `solve(I - A / 2, I + A / 2)`, or a product of reflections
    (`repdl.nn.orthogonal_maps` has the orders), and the result `base @ Q`, where there is a base.

    Contract: matmul v1. Source: https://arxiv.org/abs/1909.09501
    """

    def forward(self, X: Tensor) -> Tensor:
        """The orthogonal matrix."""
        order = contract_name(self.contract)
        transposed = X.shape[-2] < X.shape[-1]
        x = X.mT if transposed else X
        of = partial(getattr(orthogonal_maps, self.orthogonal_map.name), contract=order)
        q = orthogonal_maps.each(of, x)
        if hasattr(self, "base"):
            q = ops.matmul(self.base, q, contract=order)
        return q.mT if transposed else q

    @torch.no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """What gives `Q`, which is made orthogonal if it is not."""
        name, order = self.orthogonal_map.name, contract_name(self.contract)
        if Q.shape != self.shape:
            raise ShapeError(f"orthogonal: the weight has shape {tuple(Q.shape)}, expected {tuple(self.shape)}")
        transposed = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if transposed else Q
        if not hasattr(self, "base"):
            if name != "householder":
                raise NotImplementedError(  # which torch.nn.utils.parametrize catches where it registers a map
                    f"orthogonal: a weight can't be assigned to {name} with use_trivialization=False, as in torch"
                )
            found = orthogonal_maps.each(partial(orthogonal_maps.reflections_of, contract=order), q)
            return found.mT if transposed else found
        rows, columns = q.shape[-2:]
        if rows != columns:
            more = self._drawn(q, (*q.shape[:-2], rows, rows - columns))
            q = orthogonal_maps.each(partial(orthogonal_maps.columns, contract=order), torch.cat([q, more], -1))
        elif not orthogonal_maps.is_orthogonal(q, order):
            q = orthogonal_maps.each(partial(orthogonal_maps.columns, contract=order), q)
        self.base = q.clone()
        start = torch.zeros_like(Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # which every map takes to the identity
        return start

    def _drawn(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        generator = self._draws()
        numbers = like.new_empty(shape)
        return numbers.normal_() if generator is None else orthogonal_maps.normal(numbers, generator)


def weight_norm(module: M, name: str = "weight", dim: int | None = 0, *, contract: Contract | str | None = None) -> M:
    """Make a weight of magnitudes and directions, `v * (g / norm(v))`; returns the module.

    g is `parametrizations.<name>.original0`, v is `original1`; state dicts of the hook of the same name fit too.

    Args:
        module: what has the parameter `name`.
        name: of the parameter.
        dim: what has a magnitude for each index; None has one for all.
        contract: the orders of the sums.

    Raises:
        ValueError: if `module` has no such tensor.

    Contract: norm v1. Source: https://arxiv.org/abs/1602.07868
    """
    parametrize.register_parametrization(module, name, WeightNorm(dim, contract=contract), unsafe=True)
    module._register_load_state_dict_pre_hook(partial(_renamed, name))
    return module


def _renamed(name: str, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    """Take the state of the hook."""
    old = [f"{prefix}{name}_{kind}" for kind in "gv"]
    if all(key in state_dict for key in old):
        for number, key in enumerate(old):
            state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)


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
    """Divide a weight by an estimate of its largest singular value; returns the module. See `SpectralNorm`.

    Args:
        module: what has the parameter `name`.
        name: of the parameter.
        n_power_iterations: iterations each time the weight is used in training mode.
        eps: what a norm below it counts as.
        dim: of the outputs; None is 1 for transposed convolutions, else 0.
        contract: the orders of the products and sums.
        generator: what the first vectors are drawn from.

    Raises:
        ValueError: if `module` has no such tensor.
        OutOfRangeError: if there is no such dimension, or no iteration.

    Contract: matmul v1, distance v1. Source: https://arxiv.org/abs/1802.05957
    """
    at = dimension(module) if dim is None else dim
    made = SpectralNorm(
        _tensor("spectral_norm", module, name), n_power_iterations, at, eps, contract=contract, generator=generator
    )
    parametrize.register_parametrization(module, name, made)
    return module


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
    contract: Contract | str | None = None,
    generator: Generator | None = None,
) -> M:
    """Make a weight orthogonal; returns the module. See `Orthogonal`.

    Args:
        module: what has the parameter `name`, a matrix or a batch of them.
        name: of the parameter.
        orthogonal_map: "matrix_exp", "cayley" or "householder"; None is the first for square matrices, else the last.
        use_trivialization: keep the value that the weight has as a base, with which the map is multiplied.
        contract: the orders of the products and sums.
        generator: what the columns are drawn from that make the base of a matrix that is not square.

    Raises:
        ValueError: if `module` has no such tensor, or it has less than 2 dimensions, or for another map.
        UnsupportedError: if it is complex.

    Contract: matmul v1. Source: https://arxiv.org/abs/1909.09501
    """
    op = "orthogonal"
    weight = _tensor(op, module, name)
    if weight.dim() < 2:
        raise ShapeError(f"{op}: {name}.dim() is {weight.dim()}, expected 2 or more")
    if weight.is_complex():
        raise UnsupportedError(f"{op}: {name}.dtype is {weight.dtype}, expected a real dtype")
    chosen = orthogonal_map or ("matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder")
    if chosen not in MAPS:
        raise ShapeError(f"{op}: orthogonal_map is {orthogonal_map!r}, expected one of {', '.join(MAPS)}")
    made = Orthogonal(
        weight,
        torchs._OrthMaps[chosen],
        use_trivialization=use_trivialization,
        contract=contract,
        generator=generator,
    )
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module


def _tensor(op: str, module: torch.nn.Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ShapeError(f"{op}: {type(module).__name__} has no parameter or buffer {name}")
    return tensor
