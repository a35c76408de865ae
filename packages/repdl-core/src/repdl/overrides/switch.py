"""`repdl.enable`: torch's own ops give the bits of RepDL's, or raise, in all threads."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from repdl.contract import Contract, get_contract, set_contract
from repdl.errors import ArgumentError
from repdl.overrides.kernels import kernels

ON_UNCOVERED = "raise", "warn"
_lock = threading.RLock()


class _Session:
    """The kernels that are put into torch while its settings hold."""

    def __init__(self, contract: Contract | str | None, on_uncovered: str) -> None:
        self.settings = contract, on_uncovered
        self._contract, self._fast_path = get_contract(), torch.backends.mha.get_fastpath_enabled()
        self._stance: Any = None
        self._libraries: dict[str, torch.library.Library] = {}
        try:
            if contract is not None:
                set_contract(contract)
            torch.backends.mha.set_fastpath_enabled(False)
            # Code that torch.compile makes calls no kernels of the dispatcher.
            self._stance = torch.compiler.set_stance("force_eager")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that torch's kernels are replaced
                for device in ("CPU", "CUDA") if torch.cuda.is_available() else ("CPU",):
                    for name, key, kernel, with_keyset in kernels(device, on_uncovered):
                        namespace, _, rest = name.partition("::")
                        self._library(namespace).impl(rest, kernel, key, with_keyset=with_keyset)
        except BaseException:
            self.end()
            raise

    def _library(self, namespace: str) -> torch.library.Library:
        if namespace not in self._libraries:
            self._libraries[namespace] = torch.library.Library(namespace, "IMPL")
        return self._libraries[namespace]

    def end(self) -> None:
        """Torch's kernels are torch's again."""
        while self._libraries:
            self._libraries.popitem()[1]._destroy()
        set_contract(self._contract)
        torch.backends.mha.set_fastpath_enabled(self._fast_path)
        if self._stance is not None:
            self._stance.__exit__(None, None, None)


class _State:
    session: _Session | None = None


_state = _State()


def enable(contract: Contract | str | None = None, on_uncovered: str = "raise") -> None:
    """Make torch's ops reproducible, in all threads, until `disable`.

    Every op of torch that the program reaches, in the forward and the backward pass and in optimizers, is computed by
    RepDL's function for it, with the bits that a converted model has; what moves data or is exact stays torch's;
    anything else raises. Random numbers are those of `repdl.random` from the seed of torch's generators. What
    `torch.compile` has compiled or would compile runs uncompiled.

    Args:
        contract: the contract to compute by; None: the one that is set.
        on_uncovered: "raise", or "warn", which says where the result is not reproducible any more.

    Raises:
        ArgumentError: if `on_uncovered` is neither.
        UnsupportedError: from any op of torch that is not reproducible, naming op, module, line and what to use.
    """
    if on_uncovered not in ON_UNCOVERED:
        raise ArgumentError(f"enable: on_uncovered is {on_uncovered!r}, expected one of {ON_UNCOVERED}")
    with _lock:
        if _state.session is not None:
            _state.session.end()
        _state.session = _Session(contract, on_uncovered)


def disable() -> None:
    """Torch's ops are torch's again; nothing happens if they are already."""
    with _lock:
        if _state.session is not None:
            _state.session.end()
            _state.session = None


@contextmanager
def enabled(contract: Contract | str | None = None, on_uncovered: str = "raise") -> Iterator[None]:
    """`enable` for a `with` block. At its end everything is as before, in an outer block too."""
    with _lock:
        outer = _state.session
        enable(contract, on_uncovered)
    try:
        yield
    finally:
        with _lock:
            disable()
            if outer is not None:
                enable(*outer.settings)


__all__ = ["ON_UNCOVERED", "disable", "enable", "enabled"]
