"""Random numbers that are the same on every machine: those of a seed, a stream and an offset.

The functions have the names and signatures of torch's, those of tensors (`uniform_`, ...) take the tensor
first. Without `generator=` they draw from the default generator, which `manual_seed` sets.
"""

from __future__ import annotations

from repdl.generators.generator import *
from repdl.random import checkpointing
from repdl.random.checkpointing import *
from repdl.random.continuous import *
from repdl.random.discrete import *
from repdl.random.multinomial import *
from repdl.random.sampling import *
from repdl.random.seeding import *

checkpointing.install()
