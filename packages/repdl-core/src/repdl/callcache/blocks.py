"""A chain of pointwise kernels as a recorded call: block by block, so that what they hand on stays in the cache.

Run one after the other on whole tensors, each kernel writes its result to memory, where the next one reads it. Here all
kernels of the chain take a block of some thousand elements before the next block comes, and what no caller sees has
memory for one block. An element's bits don't depend on its place in a tensor: they are those of the whole calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import torch

from repdl.callcache import spans
from repdl.callcache.extension import c_extension
from repdl.callcache.plan import Plan, Result, Span, Step
from repdl.callcache.planner import require
from repdl.callcache.spans import alike, index_of, tensors_of, unique
from repdl.callcache.trace import trace_call

_ALONE, _OF_THREADS = 1 << 14, 1 << 15
"""Elements of a block: on one thread, and for each of several, which take no fewer."""
_MOST_STEPS = 512
"""Of a recording, which has 2.5 KiB for each: the blocks of long tensors are larger."""
_LAYOUTS = "in_place", "flat"
"""Of pointwise kernels, which take elements in a row."""


def plan_blocks(function: Callable[..., Any], args: Sequence[Any], result: Any) -> Plan:
    """The plan of a call of pointwise ops on row-major tensors of one shape, and tensors without dimensions.

    Args:
        result: what the call has returned: a new tensor, or a tuple of them.

    Raises:
        NotCacheable: if the call does anything else, or has not two blocks.
    """
    tensors = unique(tensors_of(args))
    results = list(result) if isinstance(result, tuple) else [result]
    whole = [t for t in tensors if t.dim() > 0]
    require(bool(whole) and all(isinstance(r, torch.Tensor) for r in results))
    require(all(t.shape == whole[0].shape and t.is_contiguous() for t in [*whole, *results]))
    require(all(map(spans.is_on_host, tensors)))
    size = whole[0].numel()
    require(size >= 2 * _ALONE)
    chain = _Chain(function, args, tensors, 0, _ALONE)
    threads = max(call.threads for call in chain.calls)
    length = _ALONE if threads == 1 else threads * _OF_THREADS
    length = max(length, ceil(size * len(chain.calls) / _MOST_STEPS))
    require(size >= 2 * length)
    if length > _ALONE:
        chain = _Chain(function, args, tensors, 0, length)
    left = size % length
    tail = _Chain(function, args, tensors, size - left, left) if left else chain
    require(chain.is_like(tail))

    where, slots = chain.memory()
    require(max(len(results) + len(slots), len(chain.constants)) <= c_extension().MOST_TENSORS)
    new = len(tensors), len(tensors) + len(results) + len(slots)
    steps: list[Step] = []
    for begin in range(0, size, length):
        steps += (chain if size - begin >= length else tail).steps(begin, where, *new)
    return Plan(
        steps=tuple(steps),
        outputs=tuple(map(spans.without_memory, [*results, *slots])),
        constants=tuple(chain.constants),  # the tail's are the same numbers
        results=tuple(Result("new", i) for i in range(len(results))),
        returns_tuple=isinstance(result, tuple),
    )


class _Chain:
    """What a function does with so many elements of its tensors from `begin` on."""

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], tensors: Sequence[torch.Tensor], begin: int, size: int
    ) -> None:
        self.parts = [t.view(-1)[begin : begin + size] if t.dim() > 0 else t for t in tensors]
        part_of = {id(t): part for t, part in zip(tensors, self.parts)}
        result, trace = trace_call(function, [part_of.get(id(a), a) for a in args], {})
        require(trace.is_cacheable and bool(trace.kernel_calls))
        require(not any((trace.derivatives, trace.checks, trace.draws, trace.changed, trace.copies, trace.writes)))
        self.calls = trace.kernel_calls
        for call in self.calls:
            require(call.kernel.layout in _LAYOUTS and c_extension().Recording.binds(call.kernel))
        self.constants = [constant.tensor for constant in trace.constants]
        self.outputs = [call.outputs[0] for call in self.calls]
        found = [index_of(r, self.outputs) for r in (result if isinstance(result, tuple) else [result])]
        require(None not in found and len({*found}) == len(found))
        self.results: dict[int, int] = {output: number for number, output in enumerate(found)}  # type: ignore[misc]
        """Of the outputs that are results, which ones."""

    def is_like(self, other: _Chain) -> bool:
        """Whether the other one calls the same kernels."""
        mine, others = ([call.kernel for call in of.calls] for of in (self, other))
        return mine == others and self.results == other.results and len(self.constants) == len(other.constants)

    def memory(self) -> tuple[dict[int, int], list[torch.Tensor]]:
        """Where each output is: a result, or behind them a tensor of a block, which others have after its last use."""
        last = {id(t): k for k, call in enumerate(self.calls) for t in tensors_of(call.arguments)}
        where, slots, free = dict(self.results), list[torch.Tensor](), list[int]()
        for k, (call, output) in enumerate(zip(self.calls, self.outputs)):
            ending = [where[j] for j in range(k) if last.get(id(self.outputs[j])) == k and j not in self.results]
            usable = free + (ending if call.kernel.layout == "in_place" else [])
            free += ending
            if k in self.results:
                continue
            slot = next((s for s in usable if alike(slots[s - len(self.results)], output)), None)
            if slot is None:
                slot = len(self.results) + len(slots)
                slots.append(output)
            else:
                free.remove(slot)
            where[k] = slot
            if id(output) not in last:
                free.append(slot)
        return where, slots

    def steps(self, begin: int, where: dict[int, int], new: int, constants: int) -> list[Step]:
        """The kernels on a block of the call.

        Args:
            begin: its first element.
            where: of `memory`.
            new, constants: how many sources of memory come before the outputs, and before the constants.
        """
        known = {id(c): Span(constants + i) for i, c in enumerate(self.constants)}
        for i, part in enumerate(self.parts):
            known[id(part)] = Span(i, begin * part.itemsize if part.dim() > 0 else 0)
        for k, output in enumerate(self.outputs):
            known[id(output)] = Span(new + where[k], begin * output.itemsize if k in self.results else 0)
        steps = []
        for call in self.calls:
            given = tensors_of(call.arguments, call.outputs)
            require(all(id(t) in known for t in given))
            located = tuple(known[id(t)] for t in given)
            step = Step(call.kernel, tuple(call.arguments), tuple(call.outputs), located, (), call.threads, call.device)
            steps.append(step)
        return steps


__all__ = ["plan_blocks"]
