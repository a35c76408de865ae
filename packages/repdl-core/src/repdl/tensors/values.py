"""Values of tensors that the host looks at, or leaves to a device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._C import _functorch


def has_values(tensor: torch.Tensor) -> bool:
    """Whether there are values now: not while compiling, under vmap, or of a tensor without any."""
    return (
        not torch.compiler.is_compiling()
        and type(tensor) is torch.Tensor
        and not tensor.is_meta
        and not _functorch.is_batchedtensor(tensor)
    )


def is_on_host(tensor: torch.Tensor) -> bool:
    """Whether the host can look at the values without waiting for a device."""
    return tensor.device.type == "cpu"


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether the values can be looked at here and now."""
    return is_on_host(tensor) and has_values(tensor)


def is_numpys(tensor: torch.Tensor) -> bool:
    """Whether NumPy can compute with the values: they can be read, nothing notes which ops are called, as tracing does,
    and the memory has them as they are."""
    if not is_readable(tensor) or _functorch.is_functorch_wrapped_tensor(tensor):
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
        return False
    return not (tensor._is_zerotensor() or tensor.is_neg())


def assert_on_device(op: str, values: torch.Tensor, right: Callable[[torch.Tensor], torch.Tensor], what: str) -> bool:
    """Whether `values` are on a device, which then checks that all of them are `right`.

    As after an assertion in one of torch's kernels, nothing runs there any more if one is not, and the next call that
    waits for the device raises an error.
    """
    if is_on_host(values) or not has_values(values):
        return False
    if values.numel():
        torch._assert_async(right(values).all(), f"{op}: {what}")
    return True
