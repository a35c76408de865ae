"""The state of a whole run in a file: stop at any step, go on anywhere, with the digest of a run that never stopped.

`save` writes models, optimizers, schedules, the position in the data and all generators, `load` puts them back, all or
nothing, and `latest` finds where to go on.
"""

from __future__ import annotations

from repdl.checkpoint.batches import Batches
from repdl.checkpoint.compare import Difference, diff
from repdl.checkpoint.folder import latest
from repdl.checkpoint.generators import Generators
from repdl.checkpoint.loading import Checkpoint, load
from repdl.checkpoint.saving import Saving, async_save, save

__all__ = [
    "Batches",
    "Checkpoint",
    "Difference",
    "Generators",
    "Saving",
    "async_save",
    "diff",
    "latest",
    "load",
    "save",
]
