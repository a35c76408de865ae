"""Dropout layers where they drop nothing: in eval mode, or with p = 0.

Made by `from_torch_module` alone; what they draw in training is torch's, on no two machines the same.
"""

from __future__ import annotations

import torch

from repdl.errors import UnsupportedError
from repdl.nn.modules.layer import Layer


class _Dropout(Layer):
    p: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The input itself.

        Raises:
            UnsupportedError: in training with another p than 0.
        """
        if self.training and self.p != 0:
            raise UnsupportedError(
                f"{type(self).__name__}: training is True with p = {self.p}, expected eval mode or p = 0: "
                f"torch's random numbers are not reproducible; call .eval() or set p = 0"
            )
        return input


class Dropout(_Dropout, torch.nn.Dropout):
    """Identity, any shape and dtype."""


class Dropout1d(_Dropout, torch.nn.Dropout1d):
    """Identity, any shape and dtype."""


class Dropout2d(_Dropout, torch.nn.Dropout2d):
    """Identity, any shape and dtype."""


class Dropout3d(_Dropout, torch.nn.Dropout3d):
    """Identity, any shape and dtype."""


class AlphaDropout(_Dropout, torch.nn.AlphaDropout):
    """Identity, any shape and dtype."""


class FeatureAlphaDropout(_Dropout, torch.nn.FeatureAlphaDropout):
    """Identity, any shape and dtype."""


CLASSES: tuple[type[torch.nn.Module], ...] = (
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    AlphaDropout,
    FeatureAlphaDropout,
)
