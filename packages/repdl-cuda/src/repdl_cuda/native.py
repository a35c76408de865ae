"""Where kernels come from and where they run: for CUDA tensors the GPU, for CPU tensors the emulated build."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from repdl.errors import UnavailableError
from repdl.registry.native import Native

_modules: dict[str, Any] = {}


def load(name: str) -> Any:
    """The extension module `_cuda` or `_emulated`.

    Raises:
        UnavailableError: if this installation was built without it.
    """
    if name not in _modules:
        try:
            _modules[name] = import_module(f"repdl_cuda.{name}")
        except ModuleNotFoundError:
            option = {"_cuda": "DEVICE", "_emulated": "EMULATED"}[name]
            raise UnavailableError(
                f"repdl-cuda was built without {name}: pip install repdl-cuda -Ccmake.define.REPDL_CUDA_{option}=ON"
            ) from None
    return _modules[name]


def stream(tensor: torch.Tensor) -> tuple[int, int]:
    """Index of the tensor's device, and the handle of the stream that is current there."""
    if not tensor.is_cuda:
        return 0, 0
    index = tensor.get_device()
    return index, torch._C._cuda_getCurrentRawStream(index)


NATIVE = Native(
    kernels=lambda tensor: _modules["_cuda" if tensor.is_cuda else "_emulated"].kernels,
    run=lambda tensor: (1, *stream(tensor)),
)
"""How kernels run: on the current stream of the tensors' device."""
