"""How ops are declared: what all registrations of a form share."""

from __future__ import annotations

from repdl.ops.declare.expression import *
from repdl.ops.declare.formula import *
from repdl.ops.declare.pointwise import *
from repdl.ops.declare.position import *
from repdl.ops.declare.public import *
from repdl.ops.declare.step import *
