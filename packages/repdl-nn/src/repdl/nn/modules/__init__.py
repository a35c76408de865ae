"""The layers, one family a file. Containers and layers without arithmetic are torch's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repdl.nn import left_out
from repdl.nn.modules.activation import *
from repdl.nn.modules.adaptive import *
from repdl.nn.modules.attention import *
from repdl.nn.modules.batchnorm import *
from repdl.nn.modules.containers import *
from repdl.nn.modules.conv import *
from repdl.nn.modules.distance import *
from repdl.nn.modules.dropout import *
from repdl.nn.modules.fold import *
from repdl.nn.modules.instancenorm import *
from repdl.nn.modules.layer import *
from repdl.nn.modules.lazy import *
from repdl.nn.modules.linear import *
from repdl.nn.modules.loss import *
from repdl.nn.modules.margin_loss import *
from repdl.nn.modules.normalization import *
from repdl.nn.modules.padding import *
from repdl.nn.modules.pooling import *
from repdl.nn.modules.recurrent import *
from repdl.nn.modules.softmax import *
from repdl.nn.modules.sparse import *
from repdl.nn.modules.transformer import *
from repdl.nn.modules.upsampling import *

if not TYPE_CHECKING:  # which exports what is imported with *
    __getattr__ = left_out.attribute("nn.modules")
    __all__ = sorted(name for name, value in list(vars().items()) if isinstance(value, type))
