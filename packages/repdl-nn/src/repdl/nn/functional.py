"""The functions behind the layers, under the names of `torch.nn.functional`.

They are those of `repdl.ops`: torch's signatures, and a keyword `contract` where bits depend on it. Those that only
move data are torch's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import channel_shuffle as channel_shuffle
from torch.nn.functional import one_hot as one_hot
from torch.nn.functional import pixel_shuffle as pixel_shuffle
from torch.nn.functional import pixel_unshuffle as pixel_unshuffle

from repdl import ops
from repdl.ops import *

MOVES = ("channel_shuffle", "one_hot", "pixel_shuffle", "pixel_unshuffle")
"""torch's own functions."""

if not TYPE_CHECKING:  # which exports what is imported with *
    __all__ = [*(name for name in ops.__all__ if hasattr(torch.nn.functional, name)), *MOVES]
