"""`skip_init`: a module without its initialisation."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

import torch

from repdl.errors import ArgumentError
from repdl.nn.modules.layer import Layer

M = TypeVar("M", bound=torch.nn.Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module whose parameters and buffers are not initialised: no number is drawn, no memory is written.

    Args:
        module_cls: a class of modules that take `device`.
        args, kwargs: its arguments; `device`, by default the CPU, is where the module is afterwards.

    Raises:
        ArgumentError: for another class.

    Contract: none: the values are those that are in memory.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.skip_init.html
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, torch.nn.Module)):
        raise ArgumentError(f"skip_init: module_cls is {module_cls!r}, expected a class of modules")
    if not any(_takes_device(cls) for cls in (module_cls, *_torchs(module_cls))):
        raise ArgumentError(f"skip_init: {module_cls.__name__} takes no device, which is needed to leave it empty")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)


def _torchs(cls: type) -> list[type]:
    """torch's classes of a layer, whose constructors it has."""
    return [c for c in cls.__mro__ if c.__module__.startswith("torch.")] if issubclass(cls, Layer) else []


def _takes_device(cls: type) -> bool:
    return "device" in inspect.signature(cls).parameters


__all__ = ["skip_init"]
