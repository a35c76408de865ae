"""What a planted bug is, and the tests that as a rule catch it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import repdl_cpu

TESTS = Path(__file__).parents[1]
BEST = repdl_cpu.get_isa()


@dataclass(frozen=True)
class Bug:
    file: str
    edits: dict[str, str]
    """Text that stands once in the file -> what is planted in its place."""
    family: str
    """What is compiled."""
    caught: str = ""
    """pytest's arguments, a part of the suite that fails; as a rule the parity of the family."""
    only: str = ""
    """The ISA that the mistake shows on, if it is not every one."""
    small: bool = False
    """Whether it shows in small cases only if all sizes that are tuned are small (base/tuned.hpp)."""

    @property
    def tests(self) -> list[str]:
        if not self.caught:
            return parity(self.family)
        file, *more = self.caught.format(best=BEST).split(" -k ")
        return [str(TESTS / file), *(["-k", more[0]] if more else [])]


def parity(family: str, also: str = "") -> list[str]:
    others = "".join(f" and not {isa}" for isa in repdl_cpu.supported_isas() if isa != BEST)
    return [str(TESTS / "test_parity.py"), "-k", f"TestCpu and ({also or family + '_'}){others}"]
