"""register_conversion: classes and functions that others bring."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

import repdl
from repdl import nn
from repdl.errors import UnsupportedError
from repdl.nn import conversions, convert, left_out


class Soft(torch.nn.Upsample):
    """A layer that has no counterpart of its own."""


class Softer(Soft):
    pass


class Reproducible(Soft):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input.repeat_interleave(int(self.scale_factor), -1)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry that forgets what a test registers."""
    monkeypatch.setattr(conversions, "_table", dict(conversions._table))
    yield


def test_register_conversion__class():
    nn.register_conversion(Soft, Reproducible)
    model = torch.nn.Sequential(Soft(scale_factor=2))
    converted = repdl.from_torch_module(model)
    assert type(converted[0]) is Reproducible and converted[0].scale_factor == 2 and type(model[0]) is Soft


def test_register_conversion__class_serves_subclasses_too():
    nn.register_conversion(Soft, Reproducible)
    converted = repdl.from_torch_module(Softer(scale_factor=2))
    assert isinstance(converted, Softer) and isinstance(converted, Reproducible)


def test_register_conversion__function_gives_another_module_everywhere():
    seen = []

    def convert(module: torch.nn.Module, contract: str | None) -> torch.nn.Module:
        seen.append(contract)
        return torch.nn.Sequential(nn.ReLU(contract=contract))

    nn.register_conversion(torch.nn.GELU, convert)
    shared = torch.nn.GELU()
    model = torch.nn.Sequential(shared, torch.nn.Sequential(shared))
    converted = repdl.from_torch_module(model, contract="v1")
    assert seen == ["v1"] and converted[0] is converted[1][0] and type(converted[0][0]) is nn.ReLU
    assert type(repdl.from_torch_module(shared)) is torch.nn.Sequential


def test_register_conversion__function_is_for_the_exact_class():
    nn.register_conversion(Soft, lambda module, contract: module)
    with pytest.raises(UnsupportedError, match="for that class alone"):
        repdl.from_torch_module(Softer(scale_factor=2))


def test_register_conversion__function_sees_converted_children():
    class Residual(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.inner(x)

    children = []

    def convert(module: torch.nn.Module, contract: str | None) -> torch.nn.Module:
        children.extend(type(child) for child in module.children())
        return module

    nn.register_conversion(Residual, convert)
    repdl.from_torch_module(Residual())
    assert children == [nn.ReLU]


def test_register_conversion__keep():
    nn.register_conversion(torch.nn.Tanh, nn.keep)
    assert type(repdl.from_torch_module(torch.nn.Tanh())) is torch.nn.Tanh


def test_register_conversion__check():
    check = lambda module: None if module.alpha == 1 else f"has alpha {module.alpha}"
    nn.register_conversion(torch.nn.ELU, nn.keep, check=check)
    repdl.from_torch_module(torch.nn.ELU())
    with pytest.raises(UnsupportedError, match="ELU, has alpha 2"):
        repdl.from_torch_module(torch.nn.ELU(2))


def test_register_conversion__wrong_classes():
    with pytest.raises(TypeError, match="expected a subclass of torch.nn.Module"):
        nn.register_conversion(int, nn.keep)
    with pytest.raises(TypeError, match="expected a subclass of GELU"):
        nn.register_conversion(torch.nn.GELU, Reproducible)


def test_supported__names_every_layer():
    assert {"Linear", "Conv2d", "BatchNorm1d", "CrossEntropyLoss"} <= set(conversions.supported())


def test_left_out__every_class_of_torch_is_known():
    """Each converts, is a container or wrapper, or is left out with its reason, which is raised."""
    classes = {name: value for name, value in vars(torch.nn).items() if isinstance(value, type)}
    modules = {name: c for name, c in classes.items() if issubclass(c, torch.nn.Module)}
    modules = {name: c for name, c in modules.items() if c.forward is not torch.nn.Module.forward}  # others are bases
    holds = {c.__name__ for c in convert._CONTAINERS} | convert._WRAPPERS.keys()
    without = {name for name, c in modules.items() if conversions.find(c) is None and name not in holds}
    assert without == left_out.LAYERS.keys() & modules.keys()
    for name in left_out.LAYERS.keys() & modules.keys():  # an older torch lacks some
        assert name in without, name
        module = modules[name].__new__(modules[name])
        torch.nn.Module.__init__(module)
        with pytest.raises(UnsupportedError, match=re.escape(f"{name}, {left_out.LAYERS[name]}")):
            repdl.from_torch_module(module)


def test_functional__has_what_moves_data():
    """torch's functions that compute nothing, and the layers over them: the same objects."""
    for name in ("channel_shuffle", "one_hot", "pixel_shuffle", "pixel_unshuffle"):
        assert getattr(nn.functional, name) is getattr(torch.nn.functional, name)
    for name in ("ChannelShuffle", "Flatten", "Identity", "PixelShuffle", "PixelUnshuffle", "Unflatten"):
        assert getattr(nn, name) is getattr(torch.nn, name)
