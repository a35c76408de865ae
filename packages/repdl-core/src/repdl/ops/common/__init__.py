"""What functions of several families share."""

from __future__ import annotations

from repdl.ops.common.broadcast import *
from repdl.ops.common.casting import *
from repdl.ops.common.device import *
from repdl.ops.common.index import *
from repdl.ops.common.inplace import *
from repdl.ops.common.packed import *
from repdl.ops.common.reduce import *
from repdl.ops.common.scalar import *
from repdl.ops.common.sort_key import *
from repdl.ops.common.zero import *
