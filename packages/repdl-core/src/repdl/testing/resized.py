"""Calls of every op with other sizes than its golden cases have, in memory of other layouts, made of those cases.

A case has a few sizes, chosen for what its author thought of. Here each size that its tensors have becomes another one
wherever it stands, in tensors and in numbers of the call, and elements are repeated; some tensors become zeros, or have
infinities and NaN. What the op then refuses is left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod
from typing import Any

import torch

import repdl
from repdl.errors import RepDLError
from repdl.registry import OPS
from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import SPECIAL
from repdl.testing.run import ODD_CONTRACTS, run

CONTRACTS = ("v1", "v1", "sequential", *ODD_CONTRACTS)
MOST = 30_000
"""Elements of all tensors of a call: the reference computes it too."""
_SMALL = 4
"""Numbers of a call below it are no sizes: dimensions, strides, kinds."""


@dataclass(frozen=True)
class Resized:
    """A call, the contract it is made by, and the reference's result."""

    case: Case
    contract: str
    expected: Any

    def check(self, backend: str, what: str = "") -> None:
        """Raise AssertionError unless a backend has the reference's bits."""
        actual = _run(self.case, self.contract, backend)
        try:
            assert_same_bits(actual, self.expected, f"{self.case} {self.contract} on {backend} {what}")
        except AssertionError as error:
            shapes = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in self.case.make()]
            raise AssertionError(f"{error}; the arguments are {shapes}") from None


def resized_calls(op: str, seeds: Sequence[int]) -> Iterator[Resized]:
    """What the op takes of the calls of these seeds."""
    for seed in seeds:
        choose = random.Random(f"{op} {seed}")
        case = choose.choice(_cases()[op])
        made = replace(case, name=f"{case.name}, resized by {seed}", make=partial(_resized, case, choose.random()))
        contract = choose.choice(CONTRACTS) if OPS[op].has_order else "v1"
        try:
            expected = _run(made, contract, "reference")
        except (RepDLError, RuntimeError, ValueError, IndexError):
            continue
        yield Resized(made, contract, expected)


@cache
def _cases() -> Mapping[str, list[Case]]:
    found: dict[str, list[Case]] = {op: [] for op in OPS}
    for case in cases():
        found[case.op].append(case)
    return {op: those for op, those in found.items() if those}


def _run(case: Case, contract: str, backend: str) -> Any:
    """Through all checks of the op, which calls of kernels leave out."""
    with torch.no_grad(), repdl.use_backend(backend):
        return run(case, contract, OPS[case.op].overload)


def _resized(case: Case, seed: float) -> tuple[Any, ...]:
    choose = random.Random(seed)
    args = case.make()
    sizes = sorted({n for a in args for shape in _shapes(a) for n in shape} - {0, 1})
    mapping = {n: _other(n, choose) for n in sizes}
    count = sum(prod(mapping.get(n, n) for n in shape) for a in args for shape in _shapes(a))
    if count > MOST:
        raise ValueError(f"{case}: {count} elements, expected at most {MOST}")
    return tuple(_with(a, mapping, choose) for a in args)


def _shapes(argument: Any) -> Iterator[Sequence[int]]:
    if isinstance(argument, list):
        for one in argument:
            yield from _shapes(one)
    elif isinstance(argument, torch.Tensor):
        yield argument.shape


def _other(size: int, choose: random.Random) -> int:
    if choose.random() < 0.3:
        return size
    return choose.choice([1, size - 1, size + 1, 2 * size, 2 * size + 1, choose.randint(1, 3 * size)])


def _with(argument: Any, mapping: Mapping[int, int], choose: random.Random) -> Any:
    if isinstance(argument, list):
        return [_with(one, mapping, choose) for one in argument]
    if isinstance(argument, torch.Tensor):
        tensor = _repeated(argument, [mapping.get(n, n) for n in argument.shape])
        return _laid_out(_filled(tensor, choose), choose)
    if type(argument) is int and argument >= _SMALL:
        return mapping.get(argument, argument)
    return argument


def _repeated(tensor: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """The elements of a tensor one after the other, as often as a shape has room for them."""
    flat, count = tensor.reshape(-1), prod(shape)
    if not flat.numel():
        return tensor.new_zeros(shape)
    return flat.repeat(-(-count // flat.numel()))[:count].view(shape)


def _filled(tensor: torch.Tensor, choose: random.Random) -> torch.Tensor:
    """Zeros of both signs, or what is not finite among others: a kernel may leave out what it takes for nothing."""
    kind = choose.random()
    if not tensor.is_floating_point() or kind < 0.7:
        return tensor
    values = [0.0, -0.0] if kind < 0.85 else [*SPECIAL, 0.5, -1.0, 3.0]
    chosen = torch.tensor([choose.choice(values) for _ in range(tensor.numel())], dtype=tensor.dtype)
    return torch.where(torch.arange(tensor.numel()) % 3 == 0, tensor.reshape(-1), chosen).view(tensor.shape)


def _laid_out(tensor: torch.Tensor, choose: random.Random) -> torch.Tensor:
    """The same elements in memory of another layout, for some."""
    kind = choose.random()
    if tensor.dim() < 2 or kind < 0.5:
        return tensor
    if kind < 0.7:
        order = choose.sample(range(tensor.dim()), tensor.dim())
        back = [order.index(d) for d in range(tensor.dim())]
        return tensor.permute(order).contiguous().permute(back)
    if kind < 0.85:  # a gap behind each item of the first dimension
        items = tensor.reshape(len(tensor), -1) if len(tensor) else tensor
        return torch.cat([items, items[:, :1]], 1)[:, :-1].view(tensor.shape) if items.numel() else tensor
    return torch.stack([tensor, tensor], -1)[..., 0]


__all__ = ["Resized", "resized_calls"]
