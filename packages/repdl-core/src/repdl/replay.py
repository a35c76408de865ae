"""The fast way of a call: kernels that a call ran are recorded, and run again on other tensors.

Checks, broadcasting, layouts, the choice of a backend: all that the Python of a function finds out depends
on sizes, strides, dtypes, numbers and settings, not on the values of tensors. So the second call of a
signature is recorded, and those after it go straight to the kernels. The functions stay the one definition of
what is computed and which errors are raised: whatever is unusual (a mode or transform of torch, autocast, an
open `use_contract` block, a subclass, ...) and every call that was not recorded takes their way.

The loop is in C (`repdl/python/call.hpp`), which native backends bring (entry points `repdl.call`); without
one, and with torch < 2.10, functions are called as they are.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, TypeVar

import torch

from repdl.free_numbers import Numbers, numbers_of
from repdl.places import (
    NO_VALUES,
    Within,
    alike,
    as_template,
    device_of,
    extent,
    flat,
    floats_of,
    index_of,
    is_on_host,
    is_reshaped,
    place_of,
    prototype_of,
    range_of,
    result_of,
    tensors_of,
    unique,
)
from repdl.untraced import hide

Function = TypeVar("Function", bound=Callable[..., Any])


class _Epoch:
    """While settings stay as they are, recordings hold."""

    def __init__(self) -> None:
        self.cell: list[object] = [object()]  # None while a scope is open anywhere
        self._now = self.cell[0]
        self._holds = 0
        self._lock = threading.Lock()

    @property
    def has_scopes(self) -> bool:
        """Whether a scope is open anywhere."""
        return self.cell[0] is None

    def end(self) -> None:
        """Forget all recordings: what they depend on has changed."""
        with self._lock:
            self._now = object()
            if not self._holds:
                self.cell[0] = self._now

    def hold(self, by: int) -> None:
        """Replay nothing from the first `hold(1)` to the last `hold(-1)`."""
        with self._lock:
            self._holds += by
            self.cell[0] = None if self._holds else self._now


EPOCH = _Epoch()


class Tape:
    """What happened in one call of a function."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, Sequence[Any], Sequence[torch.Tensor], int, int]] = []
        self.constants: list[torch.Tensor] = []
        self.values: list[Any] = []
        self.derivatives: list[tuple[Callable[..., Any], Sequence[torch.Tensor], Any, Any]] = []
        self.checks: list[tuple[Callable[..., Any], Sequence[Any], Within | None]] = []
        self.changed: list[torch.Tensor] = []
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.written: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.draws: list[tuple[torch.Tensor, Callable[[int], torch.Tensor], int]] = []
        self.refused = False

    def add_constant(self, tensor: torch.Tensor, value: Any) -> None:
        """A number became a 0-D tensor, unless a graph that is being captured will make it."""
        self.refused |= tensor.is_cuda and torch.cuda.is_current_stream_capturing()
        self.constants.append(tensor)
        self.values.append(value)

    def recording(self, tensors: Sequence[torch.Tensor], result: Any, differentiates: bool, numbers: Numbers) -> Any:
        """A `Recording` of the call, or None where running the kernels again is not all that it does."""
        if self.refused or self.changed or not self._has_kept() or not self._runs_at(tensors):
            return None
        positions = [position for position, *_ in self.draws]
        if positions and any(within is None or index_of(within.tensor, positions) < 0 for *_, within in self.checks):
            return None  # what can be wrong is found before a generator goes on
        tensors, gradient = [*tensors, *positions], None
        if differentiates:
            differentiable = self._differentiable(tensors, result)
            if differentiable is None:
                return None
            gradient, tensors, result = differentiable
        elif self.derivatives:
            return None
        several = type(result) is tuple  # not one of torch.return_types
        results = result if several else (result,)
        written = [output for _, _, outputs, _, _ in self.steps for output in outputs]
        indices = [result_of(r, tensors, written) for r in results]
        fresh = self._fresh(
            written, {n: r for n, r in zip(indices, results) if n is not None and n >= 0}, differentiates
        )
        made = [n for n in indices if n is None or n >= 0]
        if None in made or len(set(made)) < len(made) or fresh is None or (differentiates and len(made) < len(results)):
            return None
        sources = [*tensors, *written, *self.constants]
        given = tensors_of(*(arguments for _, arguments, _, _, _ in self.steps))
        places = {id(t): place_of(t, sources) for t in (*given, *written)}
        checks = tuple(
            (c, as_template(arguments, tensors), range_of(within, tensors)) for c, arguments, within in self.checks
        )
        if None in places.values() or any(template is None for _, template, _ in checks):
            return None
        steps = self._steps(places, numbers)
        where = tuple(indices) if several else indices[0]
        copies = [
            (index_of(source, sources), index_of(target, tensors), target.nbytes) for source, target in self.copies
        ]
        new = range(len(tensors), len(tensors) + len(written))
        if any(source not in new or target < 0 for source, target, _ in copies):
            return None
        changed = tuple(target for _, target, _ in copies if is_on_host(tensors[target]))  # torch tells of the others
        rest = fresh, tuple(self.constants), numbers.constants, where, gradient, (), changed, tuple(copies)
        return _native().Recording(checks, steps, *rest, tuple(draw[1:] for draw in self.draws))

    def _steps(self, places: Mapping[int, tuple[int, int] | None], numbers: Numbers) -> tuple[Any, ...]:
        return tuple(
            (
                *(kernel, tuple(arguments), tuple(outputs)),
                *(tuple(places[id(t)] for t in tensors_of(arguments, outputs)), given, *at),
            )
            for (kernel, arguments, outputs, *at), given in zip(self.steps, numbers.steps or ((),) * len(self.steps))
        )

    def recording_in_place(
        self, tensors: Sequence[torch.Tensor], pairs: Sequence[tuple[Any, Any]], result: int, numbers: Numbers
    ) -> Any:
        """A `Recording` of a call whose kernels each have a result that goes into one of its tensors, or None.

        Args:
            pairs: of each kernel that tensor, and the result.
            result: what the call returns, as numbers of `Recording` say it.
        """
        if self.refused or self.changed or self.copies or self.derivatives or self.checks or self.draws:
            return None
        if len(self.steps) != len(pairs) or not self._has_kept() or not self._runs_at(tensors):
            return None
        changed = [index_of(target, tensors) for target, _ in pairs]
        if -1 in changed or len({*changed}) < len(pairs):
            return None
        sources = [*tensors, *self.constants]
        given = unique(tensors_of(*(arguments for _, arguments, _, _, _ in self.steps)))
        places = {id(t): place_of(t, sources) for t in given}
        for (kernel, _, outputs, *_), (target, value), index in zip(self.steps, pairs, changed):
            if kernel.layout != "in_place" or outputs[0] is not value or not alike(value, target):
                return None
            places[id(value)] = index, 0
        if None in places.values() or len(self.constants) > _native().MOST_TENSORS:
            return None
        spans = tuple((i, extent(t), i in changed) for i, t in enumerate(tensors) if (i, 0) in places.values())
        if len(spans) < sum(place[0] < len(tensors) for place in {*places.values()}):  # type: ignore[index]
            return None  # one at an offset in another
        steps, constants = self._steps(places, numbers), tuple(self.constants)
        return _native().Recording((), steps, (), constants, numbers.constants, result, None, spans, (*changed,), ())

    def _differentiable(
        self, tensors: Sequence[torch.Tensor], result: Any
    ) -> tuple[Any, list[torch.Tensor], Any] | None:
        """The one op with a derivative that a call is: the autograd function, its tensors, which of its outputs is the
        result, and what calls like it share; then those tensors, and its outputs.

        Where the call gave or returned a tensor in another shape, it is that one that the node of autograd sees.
        """
        if len(self.derivatives) != 1:
            return None
        apply, arguments, output, shared = self.derivatives[0]
        sources = [next((t for t in tensors if is_reshaped(a, t)), a) for a in arguments]
        template = as_template(sources, tensors, self.constants)
        outputs = list(output) if isinstance(output, tuple) else [output]
        item = next((i for i, o in enumerate(outputs) if o is result or is_reshaped(result, o)), None)
        if template is None or (item is None and output is not result):
            return None
        if item is not None:
            outputs[item] = result
        shared.reshape([*sources, *outputs])
        several = isinstance(output, tuple)
        which = item if several and item is not None else -1
        return (apply, template, which, shared), sources, tuple(outputs) if several else outputs[0]

    def _fresh(
        self, written: Sequence[torch.Tensor], results: Mapping[int, torch.Tensor], differentiates: bool
    ) -> tuple[torch.Tensor, ...] | None:
        """Prototypes of the tensors that a call makes, or None."""
        if max(len(written), len(self.constants)) > _native().MOST_TENSORS:
            return None
        if any(not s.is_inference() and s._version for s in written):
            return None  # something else wrote there too
        fresh = list(written)
        for index, result in results.items():
            whole = written[index]
            if result is not whole and not (
                is_reshaped(result, whole) if differentiates else result.nbytes == whole.nbytes
            ):
                return None
            fresh[index] = result  # a view of all of it, as which it is allocated
        return tuple(prototype_of(t) for t in fresh)

    def update(self, args: Sequence[Any]) -> Any:
        """A `Recording` of an op that updates lists of tensors, which holds for other numbers too, or None."""
        if self.refused or self.copies or len(self.steps) != 1 or self.derivatives or self.checks or self.draws:
            return None
        if not self._has_kept():
            return None
        kernel, arguments, outputs, *at = self.steps[0]
        if not self._runs_at(flat(args)):
            return None
        numbers = floats_of(arguments)
        if outputs or kernel.layout != "lists" or numbers != floats_of(args):
            return None
        tensors, given = unique(flat(args)), flat(arguments)
        places = [(index_of(t, tensors), 0) for t in given]
        changed = tuple(i for i, t in enumerate(tensors) if index_of(t, self.changed) >= 0)
        if (-1, 0) in places or len(changed) < len(self.changed):
            return None  # a tensor was copied
        spans = tuple((i, t.nbytes, i in changed) for (i, _), t in zip(places, given))
        step = kernel, tuple(arguments), (), tuple(places), tuple(enumerate(value for _, value in numbers)), *at
        return _native().Recording((), (step,), (), (), (), -1, None, spans, changed, ())

    def _runs_at(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether all kernels ran on the device that C finds among the tensors of the call."""
        device = device_of(tensors)
        return all(device_of(flat((*arguments, *outputs))) == device for _, arguments, outputs, _, _ in self.steps)

    def _has_kept(self) -> bool:
        """Whether all kernels are built with this version of the kit."""
        return all(hasattr(step[0], "kept_2") for step in self.steps)


class _Thread(threading.local):
    tape: Tape | None = None


THREAD = _Thread()
"""`tape`: where this thread records a call, if it does."""


def checked(check: Callable[..., Any], arguments: Sequence[Any], within: Within | None) -> None:
    """Where a check has read the values of tensors: it is part of a recording, and called again unless it holds that
    they are `within`, or those on a device, at which its kernels look."""
    if THREAD.tape is not None and within is not NO_VALUES and (within is None or is_on_host(within.tensor)):
        THREAD.tape.checks.append((check, arguments, within))


def drew(position: torch.Tensor, take: Callable[[int], torch.Tensor], count: int) -> None:
    """Where a call took a position, from a generator that no argument is: `take(count)` gives that of a later call."""
    if THREAD.tape is not None:
        THREAD.tape.draws.append((position, take, count))


def refuse() -> None:
    """Where a call does more than run kernels, or reads the values of tensors: it is not recorded."""
    if THREAD.tape is not None:
        THREAD.tape.refused = True


def store(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy what a call has computed into one of its tensors."""
    if THREAD.tape is not None:
        plain = source.device == target.device and source.dtype is target.dtype
        if plain and source.is_contiguous() and target.is_contiguous() and source.shape == target.shape:
            THREAD.tape.copies.append((source, target))
        else:
            refuse()
    target.copy_(source)


def wrote(target: torch.Tensor, result: torch.Tensor) -> None:
    """Where a form in place has written a result into its tensor."""
    if THREAD.tape is not None:
        THREAD.tape.written.append((target, result))


def changed(tensors: Sequence[torch.Tensor]) -> None:
    """Where an op has changed its arguments."""
    if THREAD.tape is not None:
        THREAD.tape.changed += tensors


def taped(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Tape]:
    """The result of a call, and what happened in it."""
    tape = THREAD.tape = Tape()
    try:
        return function(*args, **kwargs), tape
    finally:
        THREAD.tape = None


def _record(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
) -> tuple[Any, Any]:
    """The result of a call, and its recording, None, or False: not with other numbers. C calls this."""
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    versions = [-1 if t.is_inference() else t._version for t in tensors]
    result, tape = taped(function, args, kwargs)
    stored = {id(target) for _, target in tape.copies}
    tape.refused |= any(
        not t.is_inference() and t._version != version and id(t) not in stored for t, version in zip(tensors, versions)
    )
    numbers = free_numbers(function, args, kwargs, tape) if has_free_numbers else Numbers()
    return result, False if numbers is None else tape.recording(tensors, result, differentiates, numbers)


def _record_update(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
) -> tuple[Any, Any]:
    """The same for `replayed_update`."""
    result, tape = taped(function, args, kwargs)
    return result, None if kwargs or differentiates else tape.update(args)


def _record_in_place(
    function: Callable[..., Any],
    write: Callable[[torch.Tensor, Any], torch.Tensor],
    args: Any,
    kwargs: Any,
    has_free_numbers: bool,
) -> tuple[Any, Any]:
    """The same for `replayed_in_place`."""
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    result, tape = taped(function, args, kwargs)
    numbers = free_numbers(function, args, kwargs, tape) if has_free_numbers else Numbers()
    pairs = [(tensors[0], result)]
    recording = False if numbers is None else tape.recording_in_place(tensors, pairs, -2, numbers)
    return write(args[0], result), recording


def _record_each_in_place(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
) -> tuple[Any, Any]:
    """The same for `replayed_each_in_place`."""
    tensors = unique(tensors_of(args))
    if differentiates or any(t.is_inference() for t in tensors):
        return function(*args, **kwargs), None
    versions = [t._version for t in tensors]
    result, tape = taped(function, args, kwargs)
    written = [target for target, _ in tape.written]
    known = all(t._version == before + (index_of(t, written) >= 0) for t, before in zip(tensors, versions))
    return result, tape.recording_in_place(tensors, tape.written, -1, Numbers()) if written and known else None


hide(record.__code__ for record in (_record, _record_update, _record_in_place, _record_each_in_place))


def free_numbers(function: Callable[..., Any], args: Any, kwargs: Any, tape: Tape) -> Numbers | None:
    """Where the numbers of a call went, found out with others in their place; None if that can't be said."""
    values = *args, *kwargs.values()
    given = [value for value in values if type(value) is float]
    if tape.draws or any(type(v) is float for value in values if isinstance(value, (list, tuple)) for v in value):
        return None
    is_free, sizes = _native().Call.is_free, {abs(value) for value in given}
    unused = (size for size in (0.61 + n / 64 for n in itertools.count()) if size not in sizes)
    others = [math.copysign(next(unused), value) if is_free(value) else value for value in given]
    if others == given:
        return Numbers()
    left = iter(others)
    changed = [next(left) if type(value) is float else value for value in args]
    named = {name: next(left) if type(value) is float else value for name, value in kwargs.items()}
    return numbers_of(given, others, tape, taped(function, changed, named)[1])


def node_of_recording() -> dict[str, Any]:
    """`forward` and `backward` of a node of autograd whose arguments are the tensors of a recorded call, and its
    recording."""
    native = _native()
    return {} if native is None else {n: staticmethod(getattr(native.Recording, n)) for n in ("forward", "backward")}


def as_node(function: Any) -> Any:
    """`apply` of a function of autograd with those members, whose nodes call `backward` at once: torch's method of a
    node looks first for what else it might call."""
    native = _native()
    if native is not None and hasattr(function, "_backward_cls"):
        function._backward_cls.apply = native.Recording.node_method()
    return function.apply


@functools.cache
def _native() -> Any:
    """The extension module with `Call` and `Recording`, or None."""
    for point in entry_points(group="repdl.call"):
        try:
            module = point.load()
        except Exception:  # the backend that it belongs to reports why
            continue
        if not hasattr(module, "Call"):
            continue
        if getattr(module, "KIT", 0) != 1:  # what its types take (repdl/python/call.hpp)
            warnings.warn(
                f"repdl: {module.__name__} was built with an older kit than this repdl-core, so it does not make calls "
                f"fast; build it again",
                stacklevel=2,
            )
            continue
        module.Call.define_call(_traced)
        return module
    return None


def _traced(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call does, for torch.compile, which can't read it in C."""
    return self.__wrapped__(*args, **kwargs)


def replayed(function: Function) -> Function:
    """`function` with the fast way before it; also a decorator for functions of other projects.

    What it does besides calling ops may depend on the arguments and on settings, never on the values of
    tensors, and it changes none of its tensors.
    """
    return _replayed(function, _record, False)


def replayed_numbers(function: Function) -> Function:
    """The same for a function that sees no more of a floating-point number than its sign, and whether it is 0 or 1, is
    finite and a normal number: recordings hold for other numbers too."""
    call = _replayed(function, _record, True)
    call.has_free_numbers = True  # type: ignore[attr-defined]
    return call


def replayed_update(function: Function) -> Function:
    """The same for an op that updates lists of tensors in place."""
    return _replayed(function, _record_update, True)


def replayed_in_place(
    function: Function, compute: Callable[..., Any], write: Callable[[torch.Tensor, Any], torch.Tensor]
) -> Function:
    """The same for a function that writes into its first argument what `compute` returns; `write` does that.

    Recordings hold for other numbers if those of `compute` do.
    """

    def record(
        function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
    ) -> tuple[Any, Any]:
        if differentiates:
            return function(*args, **kwargs), None
        return _record_in_place(compute, write, args, kwargs, has_free_numbers)

    hide([record.__code__])
    return _replayed(function, record, getattr(compute, "has_free_numbers", False))


def replayed_each_in_place(function: Function) -> Function:
    """The same for a function that returns nothing and calls an op in place on some of its tensors, one after the
    other; each says what it `wrote`."""
    return _replayed(function, _record_each_in_place, False)


def choice(test: str, function: Callable[..., Any], otherwise: Function) -> Function:
    """`function` for calls that pass a test in C, of plain tensors, which `otherwise` does as well.

    Args:
        test: "floating": a positional argument is a floating-point tensor; "whole": there is nothing but integers,
            booleans and options; "copy" and "conversion": the kernels of these ops of torch, called with the keys of
            the dispatcher, round each number once or not at all.
    """
    native = _native()
    return otherwise if native is None else native.Choice(test, function, otherwise)  # type: ignore[no-any-return]


def shortcut(method: Any, record: Callable[..., Any], has_free_numbers: bool) -> Any:
    """What takes the place of a method of torch.Tensor for calls without gradients, or None.

    Args:
        record: the result of a call, and its recording, None, or False: not with other numbers.
    """
    native = _native()
    if native is None:
        return None
    return functools.update_wrapper(native.Shortcut(method, record, EPOCH.cell, has_free_numbers), method, updated=())


def allow_shortcuts(allowed: bool) -> None:
    """Whether shortcuts replay anything, in whatever place they are left."""
    native = _native()
    if native is not None:
        native.Shortcut.allow(allowed)


def _replayed(function: Function, record: Callable[..., Any], has_free_numbers: bool) -> Function:
    native = _native()
    if native is None:
        return function
    call: Function = native.Call(function, record, EPOCH.cell, has_free_numbers)
    functools.update_wrapper(call, function, updated=())
    return call
