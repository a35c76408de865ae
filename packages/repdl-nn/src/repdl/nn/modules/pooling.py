"""Pooling."""

from __future__ import annotations

from typing import Any

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer

Tensor = torch.Tensor


class _Pool(Layer):
    _function: str

    def _pooled(self, *arguments: Any, **options: Any) -> Any:
        return getattr(F, self._function)(*arguments, **options, contract=self.contract)


class _AvgPool(_Pool):
    kernel_size: Any  # which torch's classes declare differently, as the others below
    stride: Any
    padding: Any
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: int | None = None  # AvgPool1d has none

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, *sides) -> (N, C, *windows)`."""
        options = {} if self.divisor_override is None else {"divisor_override": self.divisor_override}
        window = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        return self._pooled(input, *window, **options)


class _AdaptiveAvgPool(_Pool):
    output_size: Any

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, *sides) -> (N, C, *output_size)`."""
        return self._pooled(input, self.output_size)


class _LPPool(_Pool):
    norm_type: float
    kernel_size: Any
    stride: Any
    ceil_mode: bool

    def forward(self, input: Tensor) -> Tensor:
        """`(N, C, *sides) -> (N, C, *windows)`."""
        return self._pooled(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _MaxPool(_Pool):
    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    ceil_mode: bool
    return_indices: bool

    def forward(self, input: Tensor) -> Any:
        """`(N, C, *sides) -> (N, C, *windows)`, and the indices if `return_indices`."""
        window = self.kernel_size, self.stride, self.padding, self.dilation
        return self._pooled(input, *window, self.ceil_mode, self.return_indices)


class _AdaptiveMaxPool(_Pool):
    output_size: Any
    return_indices: bool

    def forward(self, input: Tensor) -> Any:
        """`(N, C, *sides) -> (N, C, *output_size)`, and the indices if `return_indices`."""
        return self._pooled(input, self.output_size, self.return_indices)


class _MaxUnpool(_Pool):
    kernel_size: Any
    stride: Any
    padding: Any

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        """`(N, C, *windows) -> (N, C, *sides)`."""
        return self._pooled(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class AvgPool1d(_AvgPool, torch.nn.AvgPool1d):
    """Mean of each window: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: avg_pool v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool1d.html
    """

    _function = "avg_pool1d"


class AdaptiveAvgPool1d(_AdaptiveAvgPool, torch.nn.AdaptiveAvgPool1d):
    """Mean of each of `output_size` windows: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: avg_pool v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool1d.html
    """

    _function = "adaptive_avg_pool1d"


class LPPool1d(_LPPool, torch.nn.LPPool1d):
    """The p-norm of each window, p = `norm_type`: `(N, C, L)` or `(C, L)`, float32, bfloat16 and float16.

    Arguments are those of `torch.nn.LPPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool1d.html
    """

    _function = "lp_pool1d"


class MaxPool1d(_MaxPool, torch.nn.MaxPool1d):
    """Maximum of each window: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool1d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool1d.html
    """

    _function = "max_pool1d"


class AdaptiveMaxPool1d(_AdaptiveMaxPool, torch.nn.AdaptiveMaxPool1d):
    """Maximum of each of `output_size` windows: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveMaxPool1d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool1d.html
    """

    _function = "adaptive_max_pool1d"


class MaxUnpool1d(_MaxUnpool, torch.nn.MaxUnpool1d):
    """Maxima back at their places, 0 elsewhere: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxUnpool1d`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes differ, or the output size is none that the options give.
        OutOfRangeError: if an index is none of the output.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool1d.html
    """

    _function = "max_unpool1d"


class AvgPool2d(_AvgPool, torch.nn.AvgPool2d):
    """Mean of each window: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: avg_pool v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html
    """

    _function = "avg_pool2d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool, torch.nn.AdaptiveAvgPool2d):
    """Mean of each of `output_size` windows: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: avg_pool v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """

    _function = "adaptive_avg_pool2d"


class LPPool2d(_LPPool, torch.nn.LPPool2d):
    """The p-norm of each window, p = `norm_type`: `(N, C, H, W)` or `(C, H, W)`, float32, bfloat16 and float16.

    Arguments are those of `torch.nn.LPPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool2d.html
    """

    _function = "lp_pool2d"


class MaxPool2d(_MaxPool, torch.nn.MaxPool2d):
    """Maximum of each window: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool2d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """

    _function = "max_pool2d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool, torch.nn.AdaptiveMaxPool2d):
    """Maximum of each of `output_size` windows: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveMaxPool2d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html
    """

    _function = "adaptive_max_pool2d"


class MaxUnpool2d(_MaxUnpool, torch.nn.MaxUnpool2d):
    """Maxima back at their places, 0 elsewhere: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxUnpool2d`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes differ, or the output size is none that the options give.
        OutOfRangeError: if an index is none of the output.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html
    """

    _function = "max_unpool2d"


class AvgPool3d(_AvgPool, torch.nn.AvgPool3d):
    """Mean of each window: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AvgPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: avg_pool v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool3d.html
    """

    _function = "avg_pool3d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool, torch.nn.AdaptiveAvgPool3d):
    """Mean of each of `output_size` windows: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveAvgPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: avg_pool v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool3d.html
    """

    _function = "adaptive_avg_pool3d"


class LPPool3d(_LPPool, torch.nn.LPPool3d):
    """The p-norm of each window, p = `norm_type`: `(N, C, D, H, W)` or `(C, D, H, W)`, float32, bfloat16 and float16.

    Arguments are those of `torch.nn.LPPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool3d.html
    """

    _function = "lp_pool3d"


class MaxPool3d(_MaxPool, torch.nn.MaxPool3d):
    """Maximum of each window: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxPool3d`, and keyword `contract`, which changes no bit here.

    Raises:
        ShapeError: if a window does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool3d.html
    """

    _function = "max_pool3d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool, torch.nn.AdaptiveMaxPool3d):
    """Maximum of each of `output_size` windows: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.AdaptiveMaxPool3d`, and keyword `contract`.

    Raises:
        ShapeError: if a size is negative, or the input has none.
        DTypeError: if the dtype is not that of the contract.

    Contract: max_pool2d v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool3d.html
    """

    _function = "adaptive_max_pool3d"


class MaxUnpool3d(_MaxUnpool, torch.nn.MaxUnpool3d):
    """Maxima back at their places, 0 elsewhere: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.MaxUnpool3d`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes differ, or the output size is none that the options give.
        OutOfRangeError: if an index is none of the output.
        DTypeError: if the dtype is not that of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool3d.html
    """

    _function = "max_unpool3d"


__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]
