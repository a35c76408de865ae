"""What happened in a call, of which a recording is made (`repdl.callcache`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

import torch

from repdl.callcache.extension import c_extension
from repdl.callcache.scalars import VariableScalars
from repdl.callcache.spans import (
    ValueRange,
    alike,
    as_reshaped,
    as_template,
    device_of,
    extent,
    flat,
    floats_of,
    index_of,
    is_on_host,
    is_reshaped,
    prototype_of,
    range_of,
    result_of,
    span_of,
    tensors_of,
    unique,
)


class Trace:
    """What happened in one call of a function."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, Sequence[Any], Sequence[torch.Tensor], int, int]] = []
        self.constants: list[torch.Tensor] = []
        self.values: list[Any] = []
        self.derivatives: list[tuple[Callable[..., Any], Sequence[torch.Tensor], Any, Any]] = []
        self.checks: list[tuple[Callable[..., Any], Sequence[Any], ValueRange | None]] = []
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

    def recording(
        self, tensors: Sequence[torch.Tensor], result: Any, differentiates: bool, scalars: VariableScalars
    ) -> Any:
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
        spans_of = {id(t): span_of(t, sources) for t in (*given, *written)}
        checks = tuple(
            (*as_reshaped(c, arguments, tensors), range_of(within, tensors)) for c, arguments, within in self.checks
        )
        if None in spans_of.values() or any(template is None for _, template, _ in checks):
            return None
        steps = self._steps(spans_of, scalars)
        where = tuple(indices) if several else indices[0]
        copies = [
            (index_of(source, sources), index_of(target, tensors), target.nbytes) for source, target in self.copies
        ]
        new = range(len(tensors), len(tensors) + len(written))
        if any(source not in new or target < 0 for source, target, _ in copies):
            return None
        changed = tuple(target for _, target, _ in copies if is_on_host(tensors[target]))  # torch tells of the others
        rest = fresh, tuple(self.constants), scalars.constants, where, gradient, (), changed, tuple(copies)
        return c_extension().Recording(checks, steps, *rest, tuple(draw[1:] for draw in self.draws))

    def _steps(self, spans_of: Mapping[int, tuple[int, int] | None], scalars: VariableScalars) -> tuple[Any, ...]:
        return tuple(
            (
                *(kernel, tuple(arguments), tuple(outputs)),
                *(tuple(spans_of[id(t)] for t in tensors_of(arguments, outputs)), given, *at),
            )
            for (kernel, arguments, outputs, *at), given in zip(self.steps, scalars.steps or ((),) * len(self.steps))
        )

    def recording_in_place(
        self, tensors: Sequence[torch.Tensor], pairs: Sequence[tuple[Any, Any]], result: int, scalars: VariableScalars
    ) -> Any:
        """A `Recording` of a call whose kernels each have a result that goes into one of its tensors, or None.

        Args:
            pairs: of each kernel that tensor, and the result.
            result: what the call returns, as `Recording` takes it.
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
        spans_of = {id(t): span_of(t, sources) for t in given}
        for (kernel, _, outputs, *_), (target, value), index in zip(self.steps, pairs, changed):
            if kernel.layout != "in_place" or outputs[0] is not value or not alike(value, target):
                return None
            spans_of[id(value)] = index, 0
        if None in spans_of.values() or len(self.constants) > c_extension().MOST_TENSORS:
            return None
        spans = tuple((i, extent(t), i in changed) for i, t in enumerate(tensors) if (i, 0) in spans_of.values())
        if len(spans) < sum(span[0] < len(tensors) for span in {*spans_of.values()}):  # type: ignore[index]
            return None  # one at an offset in another
        steps, constants = self._steps(spans_of, scalars), tuple(self.constants)
        return c_extension().Recording(
            (), steps, (), constants, scalars.constants, result, None, spans, (*changed,), ()
        )

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
        several = isinstance(output, tuple)
        outputs = list(output) if several else [output]
        item = next((i for i, o in enumerate(outputs) if o is result or is_reshaped(result, o)), None)
        whole = several and type(result) is tuple and len(outputs) == len(result) and all(map(is_, outputs, result))
        if template is None or (item is None and not whole):
            return None
        if item is not None:
            outputs[item] = result
        if not shared.reshape([*sources, *outputs]):
            return None
        which = item if several and item is not None else -1
        return (apply, template, which, shared), sources, tuple(outputs) if several else outputs[0]

    def _fresh(
        self, written: Sequence[torch.Tensor], results: Mapping[int, torch.Tensor], differentiates: bool
    ) -> tuple[torch.Tensor, ...] | None:
        """Prototypes of the tensors that a call makes, or None."""
        if max(len(written), len(self.constants)) > c_extension().MOST_TENSORS:
            return None
        if any(not s.is_inference() and s._version for s in written):
            return None  # something else wrote there too
        fresh = list(written)
        for index, result in results.items():
            whole = written[index]
            if result is not whole and not (
                is_reshaped(result, whole) if differentiates else extent(result) == extent(whole)
            ):
                return None
            fresh[index] = result  # a view of all of it, as which it is allocated
        return tuple(prototype_of(t) for t in fresh)

    def update(self, args: Sequence[Any]) -> Any:
        """A `Recording` of an op that updates lists of tensors, which holds for other scalars too, or None."""
        if self.refused or self.copies or len(self.steps) != 1 or self.derivatives or self.checks or self.draws:
            return None
        if not self._has_kept():
            return None
        kernel, arguments, outputs, *at = self.steps[0]
        if not self._runs_at(flat(args)):
            return None
        scalars = floats_of(arguments)
        if outputs or kernel.layout != "lists" or scalars != floats_of(args):
            return None
        tensors, given = unique(flat(args)), flat(arguments)
        spans_of = [(index_of(t, tensors), 0) for t in given]
        changed = tuple(i for i, t in enumerate(tensors) if index_of(t, self.changed) >= 0)
        if (-1, 0) in spans_of:
            return None  # a tensor was copied
        spans = tuple((i, t.nbytes, i in changed) for (i, _), t in zip(spans_of, given))
        step = kernel, tuple(arguments), (), tuple(spans_of), tuple(enumerate(value for _, value in scalars)), *at
        return c_extension().Recording((), (step,), (), (), (), -1, None, spans, changed, ())

    def _runs_at(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether all kernels ran on the device that C finds among the tensors of the call."""
        device = device_of(tensors)
        return all(device_of(flat((*arguments, *outputs))) == device for _, arguments, outputs, _, _ in self.steps)

    def _has_kept(self) -> bool:
        """Whether all kernels are built with this version of the kit."""
        return all(hasattr(step[0], "kept_2") for step in self.steps)
