"""The generation of the settings, which says whether what a call found out still holds.

A module that changes a setting advances the generation; whoever keeps what depends on settings compares it. Neither
has to know the other.
"""

from __future__ import annotations

import threading


class Generation:
    """A token that is replaced when a setting of the process changes.

    Attributes:
        cell: the token, in a list of one that the C code of the call cache reads; None while a scope is open anywhere.
    """

    def __init__(self) -> None:
        self.cell: list[object] = [object()]
        self._token = self.cell[0]
        self._holds = 0
        self._lock = threading.Lock()

    @property
    def has_scopes(self) -> bool:
        """Whether a scope is open anywhere."""
        return self.cell[0] is None

    def advance(self) -> None:
        """Make all that was recorded stale: a setting has changed."""
        with self._lock:
            self._token = object()
            if not self._holds:
                self.cell[0] = self._token

    def hold(self, by: int) -> None:
        """Have no generation from the first `hold(1)` to the last `hold(-1)`; afterwards it is the one from before."""
        with self._lock:
            self._holds += by
            self.cell[0] = None if self._holds else self._token


GENERATION = Generation()
