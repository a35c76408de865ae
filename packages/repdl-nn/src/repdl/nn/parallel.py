"""Classes that stand for those of `torch.nn.parallel` in `isinstance`; RepDL has no parallel training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repdl.nn import left_out

if not TYPE_CHECKING:
    __getattr__ = left_out.attribute("nn.parallel")
