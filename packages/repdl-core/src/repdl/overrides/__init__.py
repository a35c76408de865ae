"""torch's own ops, computed by RepDL: `repdl.enable`.

`functions` says which function of RepDL computes which op, `binding` how arguments and forms of ops become theirs,
`draws` what random numbers are, `refusal` what happens with all others; `kernels` makes of it what `switch` puts into
torch's dispatcher, `late` says what comes later, `children` takes it to new processes. `within` puts the same
kernels where one thread meets them, for the calls of converted models.
"""

from __future__ import annotations

from repdl.overrides.switch import disable, enable, enabled

__all__ = ["disable", "enable", "enabled"]
