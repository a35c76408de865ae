"""The functions behind the layers, under the names of `torch.nn.functional`.

They are those of `repdl.ops`: torch's signatures, and a keyword `contract` where bits depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from repdl import ops
from repdl.ops import *

if not TYPE_CHECKING:  # which exports what is imported with *
    __all__ = [name for name in ops.__all__ if hasattr(torch.nn.functional, name)]
