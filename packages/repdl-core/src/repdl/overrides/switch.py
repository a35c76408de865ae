"""`repdl.enable`: torch's own ops give the bits of RepDL's, or raise, in all threads."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import _C

from repdl.audit.reproducibility import is_ieee
from repdl.contract import Contract, as_contract, default_contract, set_contract
from repdl.dynamo import check_uncompiled, set_dynamo_skip
from repdl.errors import ArgumentError, UnsupportedError, placed
from repdl.generators.lock import ForkLock
from repdl.overrides import collectives, dtensors, settings
from repdl.overrides.children import Start, in_children
from repdl.overrides.imports import when_imported
from repdl.overrides.kernels import ENTERED, Found, kernels
from repdl.overrides.late import Library, watched
from repdl.overrides.optimizers import one_formula
from repdl.overrides.others import OUTPUT_CODE, graphs_refused, others_refused
from repdl.overrides.python_numbers import exact_numbers
from repdl.overrides.refusal import GO_ON, Refusals, where
from repdl.overrides.retired import kernel_handle, release_later
from repdl.overrides.schedules import exact_schedules
from repdl.overrides.shortcuts import Shortcuts, hidden
from repdl.overrides.torchs import forget_kernels
from repdl.settings.garbage import uncollected

ON_UNCOVERED = "raise", "warn"
STANCE = "repdl.compiling.stance"
"""Of a package above this one: it is imported when Dynamo is."""
LOCK = ForkLock()


def prepare() -> None:
    """For a process from which enabled ones are forked: import what `enable()` changes when imported, and find its
    kernels for CPUs. Nothing is computed, no GPU is looked for, and torch stays as it is."""
    before = dict(os.environ)
    import_module(STANCE)
    import_module(OUTPUT_CODE)
    for name in os.environ.keys() - before.keys():  # Dynamo leaves settings there
        del os.environ[name]
    if hasattr(torch.library, "get_kernel"):
        with uncollected():
            deque(kernels("CPU", ON_UNCOVERED[0], _C._dispatch_get_all_op_names(), Found()), maxlen=0)


def _dynamo_changed(on_uncovered: str) -> AbstractContextManager[None]:
    change: AbstractContextManager[None] = import_module(STANCE).only_ours(on_uncovered, hidden)
    return change


class _Session:
    """The kernels that are in torch."""

    def __init__(self, on_uncovered: str) -> None:
        self.on_uncovered, self._holds = on_uncovered, True
        self._devices = ("CPU", "CUDA") if torch.cuda.is_available() else ("CPU",)
        self._libraries: dict[str, Library] = {}
        self._names: set[str] = set()
        self._found = Found()
        self._places: set[tuple[str, str]] = set()
        self._kernels: list[Any] = []
        self._shortcuts = Shortcuts()
        with ExitStack() as stack:
            stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
            torch.backends.mha.set_fastpath_enabled(False)
            stack.enter_context(when_imported("torch._dynamo", lambda: _dynamo_changed(on_uncovered)))
            report = Refusals(on_uncovered).report
            stack.enter_context(when_imported(OUTPUT_CODE, lambda: graphs_refused(report)))
            stack.enter_context(others_refused(report))
            stack.enter_context(in_children(start_of_child))
            stack.enter_context(collectives.completed())
            stack.enter_context(exact_numbers())
            stack.enter_context(one_formula())
            stack.enter_context(exact_schedules())
            stack.enter_context(dtensors.same_plans())
            stack.enter_context(placed(where))
            stack.enter_context(settings.watched(report))
            stack.callback(self._take_out)
            stack.enter_context(watched(self._put_new, self._put_late))
            stack.callback(set_dynamo_skip, ENTERED, False)
            self._put_new()
            stack.callback(self._shortcuts.take_out)
            self._shortcuts.put_in()
            self._undone = stack.pop_all()

    def end(self) -> None:
        """Torch's kernels are torch's again."""
        self._undone.close()

    def _put_new(self) -> None:
        """Into the ops that were not there before."""
        with LOCK:
            names = [name for name in _C._dispatch_get_all_op_names() if name not in self._names]
            self._names.update(names)
            self._put(names)

    def _put_late(self, name: str, key: str) -> None:
        """Into an op that got a kernel at a key from somebody else, which must not be before ours."""
        with LOCK:
            self._names.add(name)
            self._places.discard((name, key))
            self._shortcuts.take_out_of(name, key)
            self._put([name])

    def _put(self, names: Iterable[str]) -> None:
        with warnings.catch_warnings(), uncollected():
            warnings.simplefilter("ignore")  # that torch's kernels are replaced
            for device in self._devices if self._holds else ():
                for name, key, kernel, with_keyset in kernels(device, self.on_uncovered, names, self._found):
                    if (name, key) not in self._places:
                        self._places.add((name, key))
                        namespace, _, rest = name.partition("::")
                        self._library(namespace).impl(rest, key, kernel, with_keyset)
                        self._kernels.append(kernel_handle(name, key))
        forget_kernels()
        # Where a graph of torch.compile breaks, Dynamo looks at all that runs.
        set_dynamo_skip(ENTERED if self._holds else ())

    def _library(self, namespace: str) -> Any:
        """The library as C++ has it: Python's `impl` takes half as long again, to note what is put where."""
        if namespace not in self._libraries:
            self._libraries[namespace] = Library(namespace, "IMPL")
        return self._libraries[namespace].m

    def _take_out(self) -> None:
        self._holds = False  # for a thread that has waited to say what came
        release_later(self._kernels)
        while self._libraries:
            self._libraries.popitem()[1]._destroy()
        forget_kernels()


@dataclass(eq=False)
class _Block:
    """One open `enable()` request."""

    contract: Contract
    on_uncovered: str


class _Switch:
    """The open blocks. The last one holds; they may end in any order."""

    def __init__(self) -> None:
        self._open: list[_Block] = []
        self._session: _Session | None = None

    def begin(self, contract: Contract | str | None, on_uncovered: str) -> _Block:
        """Open a block; nothing happens if it can't be."""
        if on_uncovered not in ON_UNCOVERED:
            raise ArgumentError(f"enable: on_uncovered is {on_uncovered!r}, expected one of {ON_UNCOVERED}")
        if not hasattr(torch.library, "get_kernel"):
            raise UnsupportedError(
                f"repdl.enable: torch is {torch.__version__}, expected 2.13 or newer, which hands out its kernels; "
                f"use repdl.from_torch_module"
            )
        if not is_ieee():
            message = (
                f"repdl.enable: this thread flushes subnormal numbers or does not round to nearest: {settings.FLUSHES}"
            )
            if on_uncovered == "raise":
                raise UnsupportedError(f"{message}; call torch.set_flush_denormal(False) before it; {GO_ON}")
            warnings.warn(message, stacklevel=4)
        now = default_contract()
        block = _Block(now if contract is None else as_contract(contract), on_uncovered)
        if self._open:
            self._open[-1].contract = now
        else:
            self._contract = now
        try:
            self._settle([*self._open, block])
        except BaseException:
            self.end(block)
            raise
        return block

    def end(self, *blocks: _Block) -> None:
        """Those of the blocks that are open are no longer."""
        left = [block for block in self._open if block not in blocks]
        if len(left) < len(self._open):
            self._settle(left)

    def end_all(self) -> None:
        self.end(*self._open)

    def settings(self) -> tuple[str, str]:
        """Of the block that holds, for another process."""
        return str(default_contract()), self._open[-1].on_uncovered

    def _settle(self, blocks: list[_Block]) -> None:
        wanted = blocks[-1] if blocks else None
        changes = self._session is not None and (wanted is None or wanted.on_uncovered != self._session.on_uncovered)
        if changes or (self._session is None and wanted is not None):
            check_uncompiled()
        self._open = blocks
        if self._session is not None and changes:
            self._session.end()
            self._session = None
        if wanted is not None and self._session is None:
            with uncollected():  # it imports the packages whose functions it puts in
                self._session = _Session(wanted.on_uncovered)
        set_contract(self._contract if wanted is None else wanted.contract)


_switch = _Switch()


def is_enabled() -> bool:
    """Whether torch's ops are RepDL's now, in all threads."""
    return _switch._session is not None


def start_of_child() -> Start:
    """What a process that begins anew calls, and with what, to be enabled as this one is."""
    with LOCK:
        return enable, _switch.settings()


def enable(contract: Contract | str | None = None, on_uncovered: str = "raise") -> None:
    """Make torch's ops reproducible, in all threads, until `disable`.

    Every op of torch that the program reaches, in the forward and the backward pass and in optimizers, is computed by
    RepDL's function for it, with the bits that a converted model has; what moves data or is exact stays torch's;
    anything else raises. Random numbers are those of `repdl.random` from the seed of torch's generators. What
    `torch.compile` compiles for the backend "repdl" has the same bits; what it has compiled or would compile for
    others runs uncompiled, with a warning.

    Args:
        contract: the contract to compute by; None: the one that is set.
        on_uncovered: "raise", or "warn", which says where the result is not reproducible any more.

    Raises:
        ArgumentError: if `on_uncovered` is neither.
        ContractError: if `contract` names none. What held before holds in both cases.
        UnsupportedError: from any op of torch that is not reproducible, naming op, module, line and what to use; and
            here, with a torch that lacks what this needs, or in a thread that flushes subnormal numbers.
    """
    with LOCK:
        _switch.begin(contract, on_uncovered)


def disable() -> None:
    """Torch's ops are torch's again, in all blocks that are open; nothing happens if they are already."""
    with LOCK:
        _switch.end_all()


@contextmanager
def enabled(contract: Contract | str | None = None, on_uncovered: str = "raise") -> Iterator[None]:
    """`enable` for a `with` block. At its end what holds is what the blocks ask for that are still open, in any thread:
    as before it, where they are nested."""
    with LOCK:
        block = _switch.begin(contract, on_uncovered)
    try:
        yield
    finally:
        with LOCK:
            _switch.end(block)


__all__ = [
    "LOCK",
    "ON_UNCOVERED",
    "disable",
    "enable",
    "enabled",
    "is_enabled",
    "prepare",
    "start_of_child",
]
