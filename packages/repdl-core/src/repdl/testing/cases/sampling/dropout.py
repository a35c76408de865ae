"""Cases of dropout: probabilities, special values, layouts, odd offsets."""

from __future__ import annotations

import torch

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.cases.sampling.random import PLACES, position
from repdl.testing.inputs import uniform

CASES = [
    *(
        Case("dropout", f"p_{p}", lambda p=p: (uniform(1, 9, 11), position(), p), dtypes=EVERY)
        for p in (0.5, 0.1, 0.0, 1.0, 1.0 - 2.0**-53)
    ),
    *(Case("dropout", name, lambda n=name: (uniform(1, 33), position(n), 0.25), dtypes=DOUBLE) for name in PLACES),
    Case("dropout", "special", lambda: (uniform(2, 40, 9, special=True), position(), 0.5), dtypes=EVERY),
    Case("dropout", "long", lambda: (uniform(3, 1100), position(), 0.5)),
    Case("dropout", "one", lambda: (torch.tensor(2.5), position(), 0.5)),
    Case("dropout", "permuted", lambda: (uniform(4, 5, 6, 7).permute(2, 0, 1), position(), 0.5), dtypes=EVERY),
    Case("dropout", "channels_last", lambda: (
        uniform(5, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last), position(), 0.5
    )),
    Case("dropout", "sliced", lambda: (uniform(6, 9, 12)[::2, 1::3], position(), 0.5), dtypes=EVERY),
    Case("dropout", "expanded", lambda: (uniform(7, 5, 1).expand(5, 6), position(), 0.5)),
    Case("dropout", "empty", lambda: (uniform(1, 0, 5), position(), 0.5), dtypes=EVERY),
]  # fmt: skip
