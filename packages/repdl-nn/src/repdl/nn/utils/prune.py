"""Pruning: the functions of `torch.nn.utils.prune`, whose masks and masked weights are the same on any machine.

A masked weight is `mask * weight`, an op of the contract (`elementwise.md`): the weight itself, a zero of its sign, or
NaN where it is not finite. Which elements a mask leaves out follows from stable sorting: of equal ones, those with the
lowest index go first. Random ones are drawn by `repdl.random`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.nn.utils import prune as torchs
from torch.nn.utils.prune import is_pruned, remove

from repdl import ops, random
from repdl.errors import ArgumentError, OutOfRangeError, ShapeError, UnsupportedError
from repdl.generators.generator import chosen
from repdl.random import Generator
from repdl.registry.arguments import as_float

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

Tensor = torch.Tensor
Module = torch.nn.Module


class BasePruningMethod(torchs.BasePruningMethod):
    """A hook that masks a parameter before each call; a class of yours overrides `compute_mask`.

    Contract: elementwise v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.BasePruningMethod.html
    """

    generator: Generator | None = None

    def apply_mask(self, module: Module) -> Tensor:
        """`mask * weight`, rounded once."""
        weight = getattr(module, f"{self._tensor_name}_orig")
        return _masked(getattr(module, f"{self._tensor_name}_mask"), weight)

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """`mask * t`, with the mask of `importance_scores` (t itself where there are none)."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise ShapeError(f"prune: importance_scores.shape is {tuple(scores.shape)}, expected {tuple(t.shape)}")
        before = torch.ones_like(t) if default_mask is None else default_mask
        return _masked(self.compute_mask(scores, before), t)

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, **kwargs: Any) -> Any:
        """Mask the parameter `name` of `module`, beside masks that it has; returns the hook."""
        return _contained(super().apply(module, name, *args, **kwargs), module, name)


class PruningContainer(BasePruningMethod, torchs.PruningContainer):
    """Several masks of one parameter, each of what those before it leave."""


class Identity(BasePruningMethod, torchs.Identity):
    """A mask of ones."""


class _Counted(BasePruningMethod):
    """Methods that leave out a number of elements, or of slices, or a fraction of them."""

    amount: Any

    def _count(self, size: int) -> int:
        """How many of `size`."""
        if isinstance(self.amount, int):
            if self.amount > size:
                raise OutOfRangeError(f"prune: amount is {self.amount}, expected at most {size} (the size)")
            return self.amount
        return round(self.amount * size)

    def _dimension(self, t: Tensor) -> int:
        dim: int = self.dim  # type: ignore[attr-defined]
        if t.dim() < 2:
            raise ShapeError(f"prune: the tensor has shape {tuple(t.shape)}, expected 2 dimensions or more")
        if not -t.dim() <= dim < t.dim():
            raise OutOfRangeError(f"prune: dim is {dim}, expected {-t.dim()} to {t.dim() - 1}")
        return dim % t.dim()


class L1Unstructured(_Counted, torchs.L1Unstructured):
    """The elements of smallest magnitude are left out."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with 0 for those."""
        sizes = ops.abs(t.detach()).reshape(-1)
        return _without(default_mask, ops.topk(sizes, self._count(t.numel()), largest=False)[1])


class RandomUnstructured(_Counted, torchs.RandomUnstructured):
    """Random elements are left out: the first of `repdl.random.randperm`."""

    def __init__(self, amount: float, *, generator: Generator | None = None) -> None:
        super().__init__(amount)
        chosen("random_unstructured", generator)
        self.generator = generator

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with 0 for those."""
        order = random.randperm(t.numel(), generator=self.generator, device=t.device)
        return _without(default_mask, order[: self._count(t.numel())])

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, *, generator: Generator | None = None) -> Any:  # type: ignore[override]
        """Mask the parameter `name` of `module`."""
        apply: Any = torchs.BasePruningMethod.apply  # which takes any arguments
        return _contained(apply.__func__(cls, module, name, amount, generator=generator), module, name)


class LnStructured(_Counted, torchs.LnStructured):
    """The slices of `dim` of smallest norm are left out: those that `topk` of `vector_norm` does not keep."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with 0 for those."""
        dim = self._dimension(t)
        size = t.shape[dim]
        order = 2.0 if self.n == "fro" else as_float("ln_structured", "n", float(self.n))
        norms = ops.vector_norm(t.detach(), order, [d for d in range(t.dim()) if d != dim])
        kept = ops.topk(norms, size - self._count(size))[1]
        left = torch.ones(size, dtype=torch.bool, device=t.device).index_fill(0, kept, False)
        return default_mask.clone().index_fill_(dim, left.nonzero().squeeze(1), 0)


class RandomStructured(_Counted, torchs.RandomStructured):
    """Random slices of `dim` are left out: the first of `repdl.random.randperm`."""

    def __init__(self, amount: float, dim: int = -1, *, generator: Generator | None = None) -> None:
        super().__init__(amount, dim)
        chosen("random_structured", generator)
        self.generator = generator

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` with 0 for those."""
        dim = self._dimension(t)
        order = random.randperm(t.shape[dim], generator=self.generator, device=t.device)
        return default_mask.clone().index_fill_(dim, order[: self._count(t.shape[dim])], 0)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, dim: int = -1, *, generator: Generator | None = None
    ) -> Any:
        """Mask the parameter `name` of `module`."""
        apply: Any = torchs.BasePruningMethod.apply  # which takes any arguments
        return _contained(apply.__func__(cls, module, name, amount, dim, generator=generator), module, name)


class CustomFromMask(BasePruningMethod, torchs.CustomFromMask):
    """A mask that is given."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`mask * default_mask`."""
        if default_mask.shape != self.mask.shape:
            raise ShapeError(f"prune: mask.shape is {tuple(self.mask.shape)}, expected {tuple(default_mask.shape)}")
        return _masked(self.mask, default_mask)


def _contained(method: torchs.BasePruningMethod, module: Module, name: str) -> torchs.BasePruningMethod:
    """The hook that was registered: torch's code makes a container of its own of two masks."""
    if type(method) is torchs.PruningContainer:
        method.__class__ = PruningContainer
        setattr(module, name, method.apply_mask(module))
    return method


def _masked(mask: Tensor, t: Tensor) -> Tensor:
    return ops.mul(mask.to(dtype=t.dtype), t)


def _without(mask: Tensor, elements: Tensor) -> Tensor:
    """A mask with 0 at these elements, counted row-major."""
    return mask.clone(memory_format=torch.contiguous_format).view(-1).index_fill_(0, elements, 0).view(mask.shape)


def is_method(value: object) -> bool:
    """Whether a name here is a pruning method; torch has one of the same name."""
    return isinstance(value, type) and issubclass(value, BasePruningMethod) and not value.__name__.startswith("_")


def identity(module: Module, name: str) -> Module:
    """Mask a parameter with ones. See torch.nn.utils.prune.identity."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float, *, generator: Generator | None = None) -> Module:
    """Leave out random elements of a parameter: `amount` of them, or that fraction; returns the module.

    Raises:
        TypeError, ValueError: unless `amount` is a fraction or a number of elements that there are.

    Contract: random v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.random_unstructured.html
    """
    RandomUnstructured.apply(module, name, amount, generator=generator)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Leave out the elements of smallest magnitude, of equal ones those of lowest index; returns the module.

    Raises:
        TypeError, ValueError: unless `amount` is a fraction or a number of elements that there are.

    Contract: max v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.l1_unstructured.html
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(
    module: Module, name: str, amount: float, dim: int, *, generator: Generator | None = None
) -> Module:
    """Leave out random slices of a parameter along `dim`; returns the module.

    Raises:
        TypeError, ValueError: unless `amount` is a fraction or a number of slices that there are.

    Contract: random v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.random_structured.html
    """
    RandomStructured.apply(module, name, amount, dim, generator=generator)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Leave out the slices along `dim` of smallest norm of order `n`; returns the module.

    Raises:
        TypeError, ValueError: unless `amount` is a fraction or a number of slices that there are.

    Contract: norm v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.ln_structured.html
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Mask a parameter. See torch.nn.utils.prune.custom_from_mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[torchs.BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Mask several parameters as if they were one vector, in the order in which they are given.

    Args:
        parameters: pairs of a module and a name.
        pruning_method: a class for single elements, torch's or that of the same name here.
        importance_scores: for some of the pairs, what decides in place of the parameter.
        kwargs: the arguments of the class.

    Raises:
        TypeError, UnsupportedError: for arguments of other types, or a class for whole slices.

    Contract: that of the class.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.global_unstructured.html
    """
    op = "global_unstructured"
    if not isinstance(parameters, Iterable):
        raise ArgumentError(f"{op}: parameters is {type(parameters).__name__}, expected pairs of a module and a name")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, Mapping):
        raise ArgumentError(f"{op}: importance_scores is {type(scores).__name__}, expected a dictionary")
    if pruning_method.PRUNING_TYPE != "unstructured":  # type: ignore[attr-defined]
        raise ArgumentError(f"{op}: {pruning_method.__name__} prunes slices, expected an unstructured method")
    ours = globals().get(pruning_method.__name__, pruning_method)
    if not issubclass(ours, BasePruningMethod):
        raise UnsupportedError(f"{op}: {pruning_method.__name__} does not derive from repdl's BasePruningMethod")
    pairs = list(parameters)
    tensors = [getattr(module, name) for module, name in pairs]
    vector = torch.cat([scores.get(pair, tensor).reshape(-1) for pair, tensor in zip(pairs, tensors)])
    masks = [getattr(m, f"{name}_mask", torch.ones_like(t)) for (m, name), t in zip(pairs, tensors)]
    container, method = PruningContainer(), ours(**kwargs)
    container._tensor_name = method._tensor_name = op
    container.add_pruning_method(method)
    final = container.compute_mask(vector, torch.cat([mask.reshape(-1) for mask in masks]))
    for (module, name), mask, tensor in zip(pairs, final.split([t.numel() for t in tensors]), tensors):
        custom_from_mask(module, name, mask.view_as(tensor))
