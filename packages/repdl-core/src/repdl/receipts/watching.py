"""Noting the steps of a run for its receipt."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from site import getsitepackages, getusersitepackages
from sysconfig import get_paths
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import dataloader

from repdl.contract import get_contract
from repdl.digest import digest
from repdl.errors import ArgumentError, ReceiptError
from repdl.overrides.switch import is_enabled
from repdl.receipts.signing import sign, signer_of
from repdl.receipts.statement import Receipt, Step, links, write
from repdl.records.calls import tensors_of
from repdl.records.environment import environment
from repdl.records.recorder import near, patched, unseen

_LOADER: Any = dataloader._BaseDataLoaderIter


class Watcher:
    """Tells the steps that optimizers make in this process.

    Args:
        first: the number of the first one; those before it were made by another process.
        begun: gets the digest of the state before that step, if there were others before it.
    """

    def __init__(
        self, every: int, told: Callable[[Step], None], first: int = 0, begun: Callable[[str], None] | None = None
    ) -> None:
        self.every, self._told, self._begun = every, told, begun
        self._data: list[str] = []
        self._optimizers: dict[int, Optimizer] = {}  # those that made a step, in the order of their first
        self._made: dict[int, int] = {}  # how many steps each has made
        self.steps = self._first = first

    def hook(self, stack: ExitStack) -> None:
        """Until the stack is closed."""
        stack.callback(register_optimizer_step_pre_hook(self._stepping).remove)
        stack.callback(register_optimizer_step_post_hook(self._stepped).remove)
        stack.enter_context(patched(_LOADER, "__next__", self._loading))

    def state(self) -> str:
        """The digest of the parameters and the state of all optimizers that made a step."""
        with unseen():
            return digest([_state(optimizer) for optimizer in self._optimizers.values()])

    def _stepping(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._begun is not None:
            begun, self._begun = self._begun, None
            with unseen():
                state = digest(_state(optimizer))
            begun(state)

    def _stepped(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._optimizers.setdefault(id(optimizer), optimizer)
        number, self.steps = self.steps, self.steps + 1
        which = [*self._optimizers].index(id(optimizer))
        made = self._made[id(optimizer)] = self._made.get(id(optimizer), self._first) + 1
        with unseen():
            state = digest(_state(optimizer)) if made % self.every == 0 else None
            settings = digest(_settings(optimizer))
        data, self._data = tuple(self._data), []
        self._told(Step(number, type(optimizer).__name__, which, settings, data, state))

    def _loading(self, load: Callable[..., Any]) -> Callable[..., Any]:
        def loaded(iterator: Any) -> Any:
            batch = load(iterator)
            with unseen():
                self._data.append(digest(tensors_of(batch)))
            return batch

        return loaded


def _state(optimizer: Optimizer) -> list[Any]:
    parameters = [parameter.detach() for group in optimizer.param_groups for parameter in group["params"]]
    return [parameters, optimizer.state_dict()["state"]]


def _settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The groups without parameters, and without what is no number: functions, say."""
    plain = (bool, int, float, str, type(None), torch.Tensor, tuple, list)
    groups = ({k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups)
    return [{k: v for k, v in group.items() if isinstance(v, plain)} for group in groups]


@contextmanager
def receipt(
    path: str | os.PathLike[str],
    every: int = 1,
    program: Sequence[str] = (),
    key: str | os.PathLike[str] | None = None,
) -> Iterator[None]:
    """Write what a program trains in the block as a receipt, which `verify` compares with another execution.

    Args:
        path: the file, written when the block ends without an error.
        every: after how many steps of an optimizer its parameters and its state are hashed; learning rates, other
            hyperparameters and batches of DataLoaders are at each.
        program: the program and its arguments, as `repdl run` takes them.
        key: a PEM file of a private key that signs it, which is read before the block begins.

    Raises:
        ArgumentError: if `every` is less than 1.
        ReceiptError: if torch's ops are not reproducible (`repdl.enable()`), no optimizer made a step, the file can't
            be written, or the key does not sign.
    """
    if every < 1:
        raise ArgumentError(f"receipt: every is {every}, expected 1 or more steps")
    if not is_enabled():
        raise ReceiptError("receipt: torch's ops are not reproducible, expected `repdl.enable()` before it")
    signer = None if key is None else signer_of(key)
    contract, steps = str(get_contract()), list[Step]()
    watcher = Watcher(every, steps.append)
    try:
        with ExitStack() as stack:
            watcher.hook(stack)
            yield
    except SystemExit as ended:  # as of `sys.exit(main())`
        if ended.code not in (None, 0):
            raise
        _write(path, program, contract, watcher, steps, signer)
        raise
    _write(path, program, contract, watcher, steps, signer)


def _write(
    path: str | os.PathLike[str],
    program: Sequence[str],
    contract: str,
    watcher: Watcher,
    steps: list[Step],
    signer: Any,
) -> None:
    if not steps:
        raise ReceiptError("receipt: no optimizer has made a step, expected one that trains")
    chain = links(program, contract, watcher.every, steps)[-1]
    found = code(), environment(), steps, watcher.state()
    write(path, Receipt(list(program), contract, watcher.every, *found, chain))
    if signer is not None:
        sign(path, signer)


def code() -> dict[str, str]:
    """The SHA-256 of the files of Python that were imported, and of the program, but those of installed packages."""
    installed = [*getsitepackages(), getusersitepackages(), *(get_paths()[name] for name in ("stdlib", "purelib"))]
    installed.append(str(Path(__file__).parents[2]))  # RepDL's own, where it is not installed
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]} | {sys.argv[0]}
    found = {}
    for file in sorted(os.path.abspath(file) for file in files if file.endswith(".py")):
        if not any(file.startswith(os.path.join(folder, "")) for folder in installed) and os.path.exists(file):
            found[near(file)] = sha256(Path(file).read_bytes()).hexdigest()
    return found


__all__ = ["Watcher", "code", "receipt"]
