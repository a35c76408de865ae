"""A converted copy has the sharing of memory that the model has: each pair of kinds of tensors, in each way to share.

What is in the memory of what follows from objects, storages, offsets and strides. A pair is in one module or in two,
either of which comes first, and one of them is in a layer that gets another class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

import repdl

Tensor = torch.Tensor


class Own(nn.Module):
    """A module of one's own with a layer that is converted, before or behind what else it has."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Own(), Own()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) if x.shape[-1] == 4 else x


def put_parameter(module: nn.Module, name: str, tensor: Tensor) -> None:
    floating = tensor.is_floating_point()
    made = tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor.detach(), floating)
    module.register_parameter(name, made)


KINDS: dict[str, Callable[[nn.Module, str, Tensor], None]] = {
    "parameter": put_parameter,
    "buffer": lambda module, name, tensor: module.register_buffer(name, tensor),
    "buffer that is not saved": lambda module, name, tensor: module.register_buffer(name, tensor, persistent=False),
    "attribute": lambda module, name, tensor: object.__setattr__(module, name, tensor),
    "in a list": lambda module, name, tensor: setattr(module, name, [1, [tensor]]),
    "in a tuple": lambda module, name, tensor: setattr(module, name, (tensor,)),
    "in a dict": lambda module, name, tensor: setattr(module, name, {"it": tensor}),
}
WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "the same": lambda t: t,
    "all of its memory": lambda t: t.detach(),
    "a row": lambda t: t.detach()[1],
    "the last element": lambda t: t.detach()[-1, -1:],
    "transposed": lambda t: t.detach().t(),
    "integers": lambda t: t.detach().view(torch.int32),
    "a row, derived": lambda t: t[1],
}


def tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All tensors of a model, by where they are."""

    def within(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from within(f"{name}.{key}", item)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                yield from within(f"{name}.{i}", item)

    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if key in ("_parameters", "_buffers") or not key.startswith("_"):
                yield from within(f"{name}.{key}", value)


def graph(module: nn.Module) -> dict[str, Any]:
    """Of each tensor which is the first that is the same, which the first of its memory, and where it is in that."""
    found = dict(tensors(module))
    names = list(found)

    def first(key: Callable[[Tensor], int], tensor: Tensor) -> str:
        return next(name for name in names if key(found[name]) == key(tensor))

    return {
        name: (
            first(id, t),
            first(lambda t: t.untyped_storage().data_ptr(), t),
            (t.storage_offset(), t.shape, t.stride(), t.dtype, isinstance(t, nn.Parameter)),
            t.tolist(),
        )
        for name, t in found.items()
    }


def models() -> Iterator[tuple[str, nn.Module]]:
    for (one, put_one), (other, put_other), (way, share), (where, at) in product(
        KINDS.items(), KINDS.items(), WAYS.items(), {"one module": 0, "two": 1, "two, the other first": 2}.items()
    ):
        model = Parts()
        base = torch.arange(12.0).view(3, 4)
        base = nn.Parameter(base) if one == "parameter" or way == "a row, derived" else base
        shared = share(base)
        takes = "parameter" not in other or (shared.is_leaf and (way != "the same" or one == "parameter"))
        if not takes or (one.startswith("buffer") and isinstance(base, nn.Parameter)):
            continue
        if other.startswith("buffer") and isinstance(shared, nn.Parameter):
            continue
        sides = [(model.first, model.first), (model.first, model.second), (model.second, model.first)][at]
        put_one(sides[0], "one", base)
        put_other(sides[1], "other", shared)
        yield f"{one} and {other}, {way}, {where}", model
    for name in ("weight", "bias"):  # of a layer that gets another class
        for other, put_other in KINDS.items():
            for way, share in WAYS.items():
                model = Parts()
                base = getattr(model.second.layer, name)
                if base.dim() < 2 and way in ("transposed", "the last element"):
                    continue
                shared = share(base)
                if other.startswith("buffer") and isinstance(shared, nn.Parameter):
                    continue
                if other == "parameter" and not shared.is_leaf:
                    continue
                put_other(model.first, "other", shared)
                yield f"{name} of a layer and {other}, {way}", model


def test_sharing__of_a_converted_model() -> None:
    count = 0
    for says, model in models():
        expected = graph(model)
        copy = repdl.from_torch_module(model)
        seen = graph(copy)
        wrong = [name for name in expected if seen.get(name) != expected[name]]
        assert not wrong, f"{says}: {wrong[0]} is {seen.get(wrong[0])}, expected {expected[wrong[0]]}"
        assert seen.keys() == expected.keys(), says
        theirs = {t.untyped_storage().data_ptr() for _, t in tensors(model)}
        assert not [n for n, t in tensors(copy) if t.untyped_storage().data_ptr() in theirs], says
        count += 1
    assert count > 300, count


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_sharing__of_parameters_in_one_flat_memory(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    flat = torch.zeros(sum(p.numel() for p in model.parameters()), dtype=dtype)
    at = 0
    for parameter in model.parameters():
        parameter.data = flat[at : at + parameter.numel()].view(parameter.shape)
        at += parameter.numel()
    model.flat = flat
    copy = repdl.from_torch_module(model)
    assert graph(copy) == graph(model)
    copy.flat.fill_(1)
    assert all(bool((p == 1).all()) for p in copy.parameters()) and not flat.any()
