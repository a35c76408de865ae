"""Cases of the activations beside those of their rows."""

from __future__ import annotations

from repdl.testing.cases import Case
from repdl.testing.inputs import uniform

CASES = [
    Case("softplus", "subnormal", lambda: (uniform(1, 300, scale=2.0**-127), 2.0**120, 20.0)),
    Case("softplus_backward", "subnormal", lambda: (uniform(2, 300), uniform(1, 300, scale=2.0**-127), 2.0**120, 20.0)),
]
