"""Noting what a program computes while it runs."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import dataloader

from repdl.audit.location import Modules, SourceLocation, current_node, here, is_compiled, sequence_number
from repdl.errors import ArgumentError
from repdl.overrides.imports import when_imported
from repdl.records.calls import comes_later, outputs_of, spelled_arguments, tensors_of
from repdl.records.entries import LEVELS, Entry, Tensor
from repdl.records.environment import environment
from repdl.records.file import Writer
from repdl.records.hashing import digest_of_bytes
from repdl.records.makers import Makers
from repdl.records.ranks import own_path
from repdl.records.values import Keeper, beside
from repdl.tensors.raw import dtype_name, raw_bytes

_LOADER: Any = dataloader._BaseDataLoaderIter
_UNINITIALISED = {
    *("empty.memory_format", "empty_like.default", "empty_strided.default", "empty_permuted.default"),
    *("new_empty.default", "new_empty_strided.default"),
}
"""Ops of aten whose results hold anything; while a run is recorded, zeros."""
_WITHOUT = {"detach.default", "lift_fresh.default", "alias.default"}
"""Ops of aten that make nothing."""


_PLACES = 1 << 18
"""Of nodes of autograd the places that are kept: a backward pass asks for those of its own graph."""


@contextmanager
def record(
    path: str | os.PathLike[str],
    level: str = "op",
    steps: range | None = None,
    only: str = "*",
    values: bool = False,
    sha256: bool = False,
    program: Sequence[str] = (),
) -> Iterator[None]:
    """Note in a file what this process computes in the block: with torch alone, or under `repdl.enable()`.

    No result changes, but for memory that nobody has written, which is zeros. What this thread computes is noted, with
    the backward passes that it begins; other threads are not. What `torch.compile` would compile runs uncompiled, but
    for the level "step"; for backends other than "repdl", whose code has other bits, a warning says so.

    Args:
        path: the file, which is written anew. Each process that a launcher such as torchrun has started as one of
            several ranks writes its own, `a.rank0.repdl` where the path is `a.repdl`; no collective is added.
        level: "op" notes every op below autograd, with digests of its inputs and outputs; "module" the inputs and
            outputs of each call of a module; "step" the parameters after each step of an optimizer. Each has what the
            coarser ones have.
        steps: those whose ops and modules are noted, of which the first is 0; default: all.
        only: a pattern as of `fnmatch`: modules whose paths match it are noted, and their ops; default: all.
        values: keep the tensors that are noted whole, in a file beside it of the name `PATH.values`: then `repdl diff`
            says how far elements are apart, and `repdl rerun` computes an op again.
        sha256: note the SHA-256 of each tensor beside the digest of 64 bits, for a record that others must believe:
            whoever wants to can find two tensors of one short digest.
        program: the program and its arguments, as `repdl record` takes them: for what `repdl diff` advises.

    Raises:
        ArgumentError: if the level is none.
        RecordError: if the file can't be written.
    """
    if level not in LEVELS:
        raise ArgumentError(f"record: level is {level!r}, expected {', '.join(map(repr, LEVELS))}")
    shown = None if steps is None else [steps.start, steps.stop, steps.step]
    facts = {"level": level, "only": only, "steps": shown, "values": values, "sha256": sha256, "program": list(program)}
    path = own_path(path)
    writer = Writer(path, environment() | facts)
    error = ""
    try:
        with ExitStack() as stack:
            beside(path).unlink(missing_ok=True)
            keeper = stack.enter_context(closing(Keeper(path))) if values else None
            _Recorder(writer, steps, only, keeper, sha256).hook(stack, level)
            yield
    except BaseException as raised:
        if not (isinstance(raised, SystemExit) and raised.code in (None, 0)):
            error = f"{type(raised).__name__}: {raised}"
        raise
    finally:
        writer.close(error)


class _Recorder:
    def __init__(self, writer: Writer, steps: range | None, only: str, keeper: Keeper | None, sha256: bool) -> None:
        self._writer, self._steps, self._only, self._keeper, self._sha256 = writer, steps, only, keeper, sha256
        self._modules, self._makers = Modules(), Makers()
        self._first_node = sequence_number()
        self._places: dict[int, SourceLocation] = {}  # number of a node of autograd -> where it was made
        self._step = self._number = 0
        self._in_optimizer = False
        self._lock = threading.RLock()

    def hook(self, stack: ExitStack, level: str) -> None:
        """Note what the level has, until the stack is closed."""
        handles = [
            register_optimizer_step_pre_hook(self._begin_step),
            register_optimizer_step_post_hook(self._end_step),
        ]
        if level != "step":
            stack.enter_context(when_imported("torch._dynamo", _uncompiled))
            handles.append(torch.nn.modules.module.register_module_forward_hook(self._module_called))  # type: ignore[arg-type]
        for handle in handles:
            stack.callback(handle.remove)
        stack.enter_context(patched(_LOADER, "__next__", self._loading))
        if level == "op":
            stack.enter_context(_Ops(self))

    def _in_steps(self) -> bool:
        return self._steps is None or self._step in self._steps

    def _wanted(self, module: str) -> bool:
        return self._in_steps() and fnmatchcase(module, self._only)

    def _add(self, kind: str, name: str, **fields: Any) -> int:
        number = self._number
        self._number += 1
        self._writer.add(Entry(kind, name, number, self._step, **fields))
        return number

    def _begin_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._in_optimizer = True

    def _end_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._in_optimizer = False
        with self._lock, unseen():
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self._add("step", type(optimizer).__name__, outputs=tuple(map(self._noted, parameters)))
            self._step += 1
            self._writer.flush()

    def _module_called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not self._in_steps() or is_compiled(module):  # the module in it was noted
            return
        with self._lock, unseen():
            path = here(self._modules, False).module
            if self._wanted(path):
                own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
                inputs = tuple(self._noted(tensor) for tensor in (*tensors_of(args), *own))
                outputs = tuple(map(self._noted, tensors_of(output)))
                name = type(module).__name__
                self._add("module", name, phase="forward", module=path, inputs=inputs, outputs=outputs)

    def _loading(self, load: Callable[..., Any]) -> Callable[..., Any]:
        def loaded(iterator: Any) -> Any:
            with unseen():  # as the ops of workers
                batch = load(iterator)
            with self._lock, unseen():
                location, name = here(self._modules, False), type(iterator).__name__.strip("_")
                tensors = tensors_of(batch)
                noted = tuple(map(self._noted, tensors))
                number = self._add("data", name, file=near(location.file), line=location.line, outputs=noted)
                self._made(tensors, number, True)
            return batch

        return loaded

    def _made(self, tensors: list[torch.Tensor], number: int, writes: bool) -> None:
        for i, tensor in enumerate(tensors):
            if _has_storage(tensor):
                self._makers.made(tensor, (number, i), writes)

    def run_op(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op and note it."""
        name = str(op)
        namespace, _, plain = name.partition(".")
        if namespace in ("profiler", "prim") or (namespace == "aten" and plain in _WITHOUT):
            result = op(*args, **kwargs)
            if plain in _WITHOUT:
                self._pass_on(args, result)
            return result
        if namespace == "aten" and plain in _UNINITIALISED:
            result = op(*args, **kwargs)
            if result.device.type != "meta":
                result.zero_()
            return result
        if not self._in_steps():
            return op(*args, **kwargs)
        node = current_node()
        location = self._location(node)
        if not self._wanted(location.module):
            return op(*args, **kwargs)
        read = tensors_of((args, kwargs))
        with self._lock:
            inputs = tuple(self._noted(tensor, self._makers.maker(tensor)) for tensor in read)
        generator = self._generator(op, args, kwargs)
        result = op(*args, **kwargs)
        outputs = outputs_of(op, args, kwargs, result)
        phase = "optimizer" if self._in_optimizer else "backward" if node is not None else "forward"
        with self._lock:
            number = self._add(
                "op", name, phase=phase, module=location.module, file=near(location.file), line=location.line,
                arguments=spelled_arguments(args, kwargs), generator=generator, inputs=inputs,
                outputs=tuple(map(self._unread if comes_later(name) else self._noted, outputs)),
            )  # fmt: skip
            self._made(outputs, number, not getattr(op, "is_view", False))
        return result

    def _location(self, node: Any) -> SourceLocation:
        """Of an op; of one of a backward pass that of the forward op whose derivative it is."""
        location = here(self._modules, node is not None)
        if node is not None:
            return location.or_of(self._places.get(node._sequence_nr(), SourceLocation()))
        number = sequence_number() - 1  # of the node that autograd has made for this op, if it made one
        if number >= self._first_node:
            self._places.setdefault(number, location)  # later ops may have no node
            if len(self._places) > _PLACES:
                for oldest in [*self._places][: _PLACES // 2]:
                    del self._places[oldest]
        return location

    def _pass_on(self, args: tuple[Any, ...], result: Any) -> None:
        """What makes nothing has the maker of its input."""
        if args and isinstance(args[0], torch.Tensor) and isinstance(result, torch.Tensor) and _has_storage(result):
            maker = self._makers.maker(args[0]) if _has_storage(args[0]) else None
            if maker is not None:
                self._makers.made(result, maker, False)

    def _noted(self, tensor: torch.Tensor, maker: tuple[int, int] | None = None) -> Tensor:
        strided = tensor.layout is torch.strided
        strides = None if not strided or tensor.is_contiguous() else tuple(tensor.stride())
        raw = _raw(tensor)
        digest = None if raw is None else self._digest_of(raw, keep=strided)
        sha256 = hashlib.sha256(raw).hexdigest() if self._sha256 and raw is not None else None
        return Tensor(dtype_name(tensor), tuple(tensor.shape), digest, maker, strides, sha256)

    def _unread(self, tensor: torch.Tensor) -> Tensor:
        """Of a tensor that something else may write meanwhile."""
        return Tensor(dtype_name(tensor), tuple(tensor.shape), None)

    def _digest_of(self, raw: bytes | memoryview, keep: bool = True) -> str:
        """The digest of bytes, which are kept if values are."""
        digest = digest_of_bytes(raw)
        if keep and self._keeper is not None and self._in_steps():
            self._keeper.keep(digest, raw)
        return f"{digest:016x}"

    def _generator(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The digest of the state of torch's generator that an op draws from, "" if it draws from none."""
        if torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ()):
            return ""
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)]
        return self._digest_of(raw_bytes(given[0].get_state() if given else torch.get_rng_state()))


class _Ops(TorchDispatchMode):
    """Every op below autograd."""

    supports_higher_order_operators = True

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._recorder.run_op(op, args, kwargs or {})


def _uncompiled() -> AbstractContextManager[None]:
    """Code that is compiled calls no op that could be noted."""
    from repdl.compiling.stance import uncompiled

    return uncompiled()


@contextmanager
def unseen() -> Iterator[None]:
    """What RepDL computes of a tensor for itself is not recorded."""
    with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
        yield


@contextmanager
def patched(owner: Any, name: str, around: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, around(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _raw(tensor: torch.Tensor) -> bytes | memoryview | None:
    """What is digested of a tensor; None if its elements can't be read."""
    if tensor.layout is torch.sparse_coo:
        return b"".join(raw_bytes(part) for part in (tensor._indices(), tensor._values()))
    return raw_bytes(tensor) if _has_storage(tensor) and not tensor.is_quantized else None


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.device.type != "meta" and type(tensor) in _PLAIN


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def near(file: str) -> str:
    """A path from the working directory, or the folder where Python finds the module: two people have it elsewhere."""
    return _near(file, os.getcwd(), tuple(sys.path)) if os.path.isabs(file) else file


@lru_cache(maxsize=1024)
def _near(file: str, working: str, search: tuple[str, ...]) -> str:
    above = (path for path in (working, *search) if path and file.startswith(path + os.sep))
    base = max(above, key=len, default="")
    return os.path.relpath(file, base) if base else file


__all__ = ["near", "patched", "record", "unseen"]
