"""Padding that repeats elements; that by a constant is torch's own."""

from __future__ import annotations

import torch

from repdl.errors import check_dim
from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class ReflectionPad1d(Layer, torch.nn.ReflectionPad1d):
    """Padding by reflection at the edges: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReflectionPad1d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad1d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, "reflect", contract=self.contract)


class ReflectionPad2d(Layer, torch.nn.ReflectionPad2d):
    """Padding by reflection at the edges: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReflectionPad2d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad2d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, "reflect", contract=self.contract)


class ReflectionPad3d(Layer, torch.nn.ReflectionPad3d):
    """Padding by reflection at the edges: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReflectionPad3d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad3d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, "reflect", contract=self.contract)


class ReplicationPad1d(Layer, torch.nn.ReplicationPad1d):
    """Padding by repetition of the edges: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReplicationPad1d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad1d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, "replicate", contract=self.contract)


class ReplicationPad2d(Layer, torch.nn.ReplicationPad2d):
    """Padding by repetition of the edges: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReplicationPad2d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad2d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, "replicate", contract=self.contract)


class ReplicationPad3d(Layer, torch.nn.ReplicationPad3d):
    """Padding by repetition of the edges: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.ReplicationPad3d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad3d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        return F.pad(input, self.padding, "replicate", contract=self.contract)


class CircularPad1d(Layer, torch.nn.CircularPad1d):
    """Padding by going around: `(N, C, L)` or `(C, L)`, any floating-point dtype.

    Arguments are those of `torch.nn.CircularPad1d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad1d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        check_dim("CircularPad1d", (2, 3), input=input)
        return F.pad(input, self.padding, "circular", contract=self.contract)


class CircularPad2d(Layer, torch.nn.CircularPad2d):
    """Padding by going around: `(N, C, H, W)` or `(C, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.CircularPad2d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad2d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        check_dim("CircularPad2d", (3, 4), input=input)
        return F.pad(input, self.padding, "circular", contract=self.contract)


class CircularPad3d(Layer, torch.nn.CircularPad3d):
    """Padding by going around: `(N, C, D, H, W)` or `(C, D, H, W)`, any floating-point dtype.

    Arguments are those of `torch.nn.CircularPad3d`, and keyword `contract`.

    Raises:
        ShapeError: if the padding does not fit the input.
        DTypeError: if the dtype is not that of the contract.

    Contract: pad v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad3d.html
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The last dimensions longer by the padding."""
        check_dim("CircularPad3d", (4, 5), input=input)
        return F.pad(input, self.padding, "circular", contract=self.contract)


__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
]
