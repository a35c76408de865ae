"""Cases of pad: every mode and dimension, pads as long as allowed, layouts."""

from __future__ import annotations

from repdl.testing.cases import DOUBLE, EVERY, Case
from repdl.testing.inputs import uniform

MODES = ("reflect", "replicate", "circular")
DTYPES = {("reflect", 1): EVERY, ("circular", 2): DOUBLE}
"""Those of some modes and dimensions."""

CASES = [
    *(
        Case(
            "pad",
            f"{m}_dim{d}",
            lambda m=m, d=d: (uniform(1, 4, 5, 6), d, 2, 3, m),
            dtypes=DTYPES.get((m, d), ()),
        )
        for m in MODES
        for d in range(3)
    ),
    *(
        Case(
            "pad_backward",
            f"{m}_dim{d}",
            lambda m=m, d=d: (uniform(1, 9, 10, 11), d, 2, 3, m),
            dtypes=DTYPES.get((m, d), ()),
        )
        for m in MODES
        for d in range(3)
    ),
    *(Case("pad", f"{m}_special", lambda m=m: (uniform(1, 4, 20, special=True), 1, 1, 0, m)) for m in MODES),
    *(Case("pad_backward", f"{m}_special", lambda m=m: (uniform(1, 4, 30, special=True), 1, 9, 8, m)) for m in MODES),
    Case("pad", "replicate_far", lambda: (uniform(1, 2, 1), 1, 4, 7, "replicate"), dtypes=DOUBLE),
    Case("pad_backward", "replicate_far", lambda: (uniform(1, 2, 90), 1, 50, 39, "replicate"), dtypes=DOUBLE),
    Case("pad", "reflect_longest", lambda: (uniform(1, 2, 4), 1, 3, 3, "reflect")),
    Case("pad_backward", "reflect_longest", lambda: (uniform(1, 2, 10), 1, 3, 3, "reflect")),
    Case("pad_backward", "circular_longest", lambda: (uniform(1, 2, 9), 1, 3, 3, "circular")),
    Case(
        "pad_backward", "subnormal", lambda: (uniform(1, 2, 90, scale=2.0**-130), 1, 50, 39, "replicate"), dtypes=DOUBLE
    ),
    Case("pad_backward", "permuted", lambda: (uniform(1, 7, 5, 6).permute(2, 0, 1), 1, 2, 2, "reflect"), dtypes=DOUBLE),
    Case("pad", "strided", lambda: (uniform(1, 8, 20)[::2, ::3], 1, 2, 2, "circular"), dtypes=EVERY),
    Case("pad", "empty", lambda: (uniform(1, 0, 5), 1, 2, 2, "circular"), dtypes=EVERY),
    Case("pad_backward", "empty", lambda: (uniform(1, 0, 9), 1, 2, 2, "circular"), dtypes=EVERY),
]
