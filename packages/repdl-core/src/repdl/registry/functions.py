"""The registered ops by name, as `define` returns them: for derivatives and formulas, which call ops of others.

`functions.pyi` has those of RepDL with their types; `tools/texts.py` writes it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    raise AttributeError(f"no op {name!r} is registered")
