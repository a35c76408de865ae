"""The exceptions of RepDL, and the checks that raise them.

A message says op, actual value, expected value and, where there is one, the remedy:
`matmul: mat2.shape[0] is 7, expected 5 (= input.shape[1])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class RepDLError(RuntimeError):
    """Base of every error that RepDL raises on purpose."""


class ContractError(RepDLError, ValueError):
    """A contract that does not exist or contradicts itself."""


class ShapeError(RepDLError, ValueError):
    """A tensor of a shape that the op does not take."""


class DTypeError(RepDLError, TypeError):
    """A tensor of a dtype outside the contract of the op."""


class DeviceError(RepDLError, ValueError):
    """Tensors on devices that the op does not take together."""


class BackendError(RepDLError):
    """A backend that is unknown, failed to load, or lacks the op asked for."""


class UnsupportedError(RepDLError, NotImplementedError):
    """An option that torch has and the contract does not cover (yet)."""


def check_dtype(
    op: str, supported: Sequence[torch.dtype] = (torch.float32,), /, **tensors: torch.Tensor | None
) -> None:
    """Raise unless each tensor (None is skipped) has one of the supported dtypes."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in supported:
            names = " or ".join(str(dtype).removeprefix("torch.") for dtype in supported)
            raise DTypeError(
                f"{op}: {name}.dtype is {str(tensor.dtype).removeprefix('torch.')}, expected {names}; "
                f"convert it first, for example {name}.to(torch.{str(supported[0]).removeprefix('torch.')})"
            )


def check_dim(op: str, expected: int | Sequence[int], **tensors: torch.Tensor | None) -> None:
    """Raise unless each tensor (None is skipped) has the expected number of dimensions."""
    allowed = (expected,) if isinstance(expected, int) else tuple(expected)
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dim() not in allowed:
            raise ShapeError(
                f"{op}: {name}.dim() is {tensor.dim()} (shape {tuple(tensor.shape)}), "
                f"expected {' or '.join(map(str, allowed))}"
            )


def check_size(op: str, what: str, actual: Any, expected: Any, source: str) -> None:
    """Raise unless `actual == expected`; `source` says where the expectation comes from."""
    if actual != expected:
        raise ShapeError(f"{op}: {what} is {actual}, expected {expected} (= {source})")


def check(op: str, condition: bool, message: str) -> None:
    """Raise `ShapeError` with `message` unless `condition` holds."""
    if not condition:
        raise ShapeError(f"{op}: {message}")
