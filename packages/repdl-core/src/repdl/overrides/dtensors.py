"""DTensors while `repdl.enable()` holds: they take torch's own way at autograd's key.

DTensor knows how to share torch's ops among the ranks of a mesh, and their derivatives. What it calls with the part of
a rank, and what it sends, comes through the dispatcher again: there RepDL computes it.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import _C

from repdl.overrides.torchs import TorchKernel, is_composed, overload
from repdl.tensors.nested import tensors_among

Function = Callable[..., Any]
_VIEWS = "ADInplaceOrView"


def is_among(values: Iterable[Any]) -> bool:
    """Whether a DTensor is among arguments, or in a list of them."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and any(isinstance(t, module.DTensor) for t in tensors_among(values))


def torchs_way(name: str, device: str) -> Function:
    """What torch does at autograd's key with a call of an op."""
    op = overload(name)
    if is_composed(name, device):
        return op.decompose
    key = f"Autograd{device}"
    kernel, place = TorchKernel(op, key), _C.DispatchKeySet(_C._dispatch_key_parse(key))
    reached = _C._dispatch_keyset_full_after(_C._dispatch_key_parse(key)) | place
    if not _C._dispatch_has_kernel_for_dispatch_key(name, _VIEWS):  # the dispatcher goes past it, torch's kernel not
        reached -= _C.DispatchKeySet(_C._dispatch_key_parse(_VIEWS))
    return functools.partial(_with_keys, kernel, reached)


def _with_keys(kernel: TorchKernel, reached: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a kernel with those of the keys of the arguments that the dispatcher has reached."""
    keys = (_C._dispatch_keys(tensor) for tensor in tensors_among((*args, *kwargs.values())))
    keyset = functools.reduce(operator.or_, keys, _C._dispatch_tls_local_include_set())
    return kernel.call((keyset - _C._dispatch_tls_local_exclude_set()) & reached, args, kwargs)


@contextmanager
def same_plans() -> Iterator[None]:
    """Until the end of the block DTensor takes it that each host has one device.

    It chooses how to bring tensors together by what that costs, which depends on the hosts that a program runs on;
    another choice adds in another order.
    """
    if not torch.distributed.is_available():
        yield
        return
    from torch.distributed.device_mesh import _mesh_resources

    kind: Any = type(_mesh_resources)
    before = vars(kind)["num_devices_per_host"]
    kind.num_devices_per_host = staticmethod(lambda device_type: 1)
    try:
        yield
    finally:
        kind.num_devices_per_host = before


__all__ = ["is_among", "same_plans", "torchs_way"]
