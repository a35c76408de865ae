"""The registry of conversions: which torch class becomes which reproducible one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils import parametrizations as torch_parametrizations
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized, type_before_parametrizations

from repdl.nn import modules
from repdl.nn.modules import Layer
from repdl.nn.utils import parametrizations

Convert = Callable[[torch.nn.Module, "str | None"], torch.nn.Module]
Check = Callable[[torch.nn.Module], "str | None"]


@dataclass(frozen=True)
class Conversion:
    """How modules of exactly one class are converted; see `register_conversion`."""

    convert: type[torch.nn.Module] | Convert
    check: Check | None = None


_table: dict[type[torch.nn.Module], Conversion] = {}
_combined: dict[tuple[type, type], type[torch.nn.Module]] = {}


def register_conversion(
    torch_class: type[torch.nn.Module],
    convert: type[torch.nn.Module] | Convert,
    *,
    check: Check | None = None,
) -> None:
    """Let `from_torch_module` convert modules of exactly the class `torch_class`.

    Args:
        torch_class: the class to convert, torch's or anybody's. A later registration of
            the same class replaces the earlier.
        convert: a subclass of `torch_class` with a reproducible `forward` and no state of
            its own: the module takes that class, and keeps all it holds. It then also
            serves subclasses of `torch_class` that override nothing of the forward pass.
            Or a function `(module, contract) -> module` that is given the copy of a
            module, its children converted, and the contract asked for or None;
            `repdl.nn.keep` is the one for modules that are reproducible as they are.
        check: `(module) -> reason` why this module can't be converted, or None if it can.

    Raises:
        TypeError: if `torch_class` is no module class, or `convert` is a class but no
            subclass of it.
    """
    if not (isinstance(torch_class, type) and issubclass(torch_class, torch.nn.Module)):
        raise TypeError(f"register_conversion: torch_class is {torch_class!r}, expected a subclass of torch.nn.Module")
    if isinstance(convert, type) and not issubclass(convert, torch_class):
        raise TypeError(
            f"register_conversion: convert is {convert.__name__}, expected a subclass of "
            f"{torch_class.__name__} or a function (module, contract) -> module"
        )
    _table[torch_class] = Conversion(convert, check)


def keep(module: torch.nn.Module, contract: str | None) -> torch.nn.Module:
    """The conversion of modules that are reproducible as they are: returns `module`."""
    return module


def find(cls: type[torch.nn.Module]) -> tuple[type[torch.nn.Module], Conversion] | None:
    """The nearest registered class among `cls` and its bases, and its conversion."""
    return next(((base, _table[base]) for base in cls.__mro__ if base in _table), None)


def supported() -> list[str]:
    """The names of the registered classes, sorted."""
    return sorted({cls.__name__.removeprefix("_") for cls in _table})


def apply(module: torch.nn.Module, contract: str | None) -> torch.nn.Module:
    """Convert one module, in place where its counterpart is a class; returns the result."""
    cls = type_before_parametrizations(module)
    found = find(cls)
    if found is None or isinstance(module, Layer):
        _become(module, cls)
        return module
    base, conversion = found
    if not isinstance(conversion.convert, type):
        _become(module, cls)
        return conversion.convert(module, contract)
    _become(module, conversion.convert if cls is base else combine(cls, conversion.convert))
    if isinstance(module, Layer):
        module.contract = contract
    return module


def _become(module: torch.nn.Module, cls: type[torch.nn.Module]) -> None:
    """Give a module the class `cls`. One with parametrizations has a class of its own over it, with a property for
    each: anew for each module, since removing a parametrization changes the class."""
    if is_parametrized(module):
        own = {k: v for k, v in vars(type(module)).items() if k not in ("__dict__", "__weakref__", "__doc__")}
        cls = type(f"Parametrized{cls.__name__}", (cls,), own)
    module.__class__ = cls


def combine(cls: type[torch.nn.Module], counterpart: type[torch.nn.Module]) -> type[torch.nn.Module]:
    """A subclass of `cls`, all of whose methods it has, with the forward of `counterpart`; made once."""
    if (cls, counterpart) in _combined:
        return _combined[cls, counterpart]

    def reduce(self: torch.nn.Module, protocol: int) -> tuple[Any, ...]:
        # A class made here is found by no import: pickle the two it is made of.
        return _new, (cls, counterpart), object.__reduce_ex__(self, 2)[2]

    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    made = type(cls.__name__, (cls, counterpart), {**names, "__reduce_ex__": reduce})
    return _combined.setdefault((cls, counterpart), made)


def _new(cls: type[torch.nn.Module], counterpart: type[torch.nn.Module]) -> torch.nn.Module:
    made = combine(cls, counterpart)
    return made.__new__(made)


def _sparse(module: torch.nn.Module) -> str | None:
    """Why a table has no counterpart: its gradients are sparse; or None."""
    return "has no counterpart with sparse=True" if getattr(module, "sparse", False) else None


_CHECKS: dict[str, Check] = {"Embedding": _sparse, "EmbeddingBag": _sparse}
for _name in modules.__all__:  # type: ignore[attr-defined]
    _class = getattr(modules, _name)
    if isinstance(_class, type) and issubclass(_class, Layer) and _class is not Layer:
        register_conversion(getattr(torch.nn, _name), _class, check=_CHECKS.get(_name))
for _name in ("Identity", "Flatten", "Unflatten", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle"):
    register_conversion(getattr(torch.nn, _name), keep)
for _name in ("WeightNorm", "SpectralNorm", "Orthogonal"):
    register_conversion(getattr(torch_parametrizations, f"_{_name}"), getattr(parametrizations, _name))
register_conversion(ParametrizationList, keep)

__all__ = [
    "Check",
    "Conversion",
    "Convert",
    "apply",
    "combine",
    "find",
    "keep",
    "register_conversion",
    "supported",
]
