"""What the steps of all optimizers check: lists of parameters, gradients and state."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.errors import DeviceError, ShapeError, UnsupportedError, check, check_dtype, check_size

DTYPES = (torch.float32, torch.float64)
"""Of parameters: a step on halves would lose what is below their last place."""


def check_lists(op: str, params: Sequence[torch.Tensor], **lists: tuple[Sequence[torch.Tensor], bool]) -> None:
    """Raise unless each list matches `params` tensor by tensor, before anything is changed.

    Args:
        lists: name -> (tensors, whether the op has them); one that it has not must be empty.
    """
    for name, (tensors, present) in lists.items():
        if present:
            check_size(op, f"len({name})", len(tensors), len(params), "len(params)")
        else:
            check_size(op, f"len({name})", len(tensors), 0, "not used with these options")
    columns = {"params": params, **{name: tensors for name, (tensors, present) in lists.items() if present}}
    for name, tensors in columns.items():
        written = name != "grads"
        for index, (tensor, param) in enumerate(zip(tensors, params)):
            if (
                param.dtype is not params[0].dtype
                or tensor.layout is not torch.strided
                or tensor.dtype is not param.dtype
                or tensor.dtype not in DTYPES
                or tensor.shape != param.shape
                or tensor.device != param.device
                or (written and not tensor.is_contiguous() and may_overlap(tensor))
            ):
                _raise(op, f"{name}[{index}]", tensor, param, params[0])


def _raise(op: str, name: str, tensor: torch.Tensor, param: torch.Tensor, first: torch.Tensor) -> None:
    """Say which of the conditions of `check_lists` does not hold."""
    if tensor.layout is not torch.strided:
        raise UnsupportedError(
            f"{op}: {name}.layout is {tensor.layout}, expected torch.strided; convert it first with .to_dense()"
        )
    check_dtype(op, DTYPES, **{name: tensor})
    check_dtype(op, (param.dtype,), **{name: tensor})
    check_dtype(op, (first.dtype,), **{name: tensor})
    check_size(op, f"{name}.shape", tuple(tensor.shape), tuple(param.shape), "shape of its parameter")
    if tensor.device != param.device:
        raise DeviceError(f"{op}: {name} is on {tensor.device}, expected {param.device} (its parameter's)")
    check(
        op,
        False,
        lambda: (
            f"elements of {name} share memory (shape {tuple(tensor.shape)}, strides {tensor.stride()}), "
            f"expected one place in memory for each element that is written; use .clone()"
        ),
    )


def may_overlap(tensor: torch.Tensor) -> bool:
    """Whether two elements may share memory: False where each stride steps over all the
    elements that smaller strides reach."""
    reached = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reached:
                return tensor.numel() > 0
            reached += stride * (size - 1)
    return False


def check_memory(op: str, spans: Sequence[tuple[int, int, bool]]) -> None:
    """Raise if a tensor that is written shares memory with another one of the call.

    Args:
        spans: (address, number of bytes, written) of each dense tensor.
    """
    end, end_written = 0, -1
    for address, count, written in sorted(spans):
        if count and address < (end if written else end_written):
            raise ShapeError(
                f"{op}: two tensors share memory and one of them is written, expected memory "
                f"of its own for each; pass every parameter once"
            )
        end = max(end, address + count)
        if written:
            end_written = max(end_written, address + count)
