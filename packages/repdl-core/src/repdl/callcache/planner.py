"""From a trace to a `Plan`: each value of the call is found among its tensors, or the call is not cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

import torch

from repdl.callcache import spans
from repdl.callcache.extension import c_extension
from repdl.callcache.plan import (
    Argument,
    Check,
    Copy,
    Draw,
    ElementRange,
    Node,
    Operand,
    Plan,
    Result,
    Span,
    Step,
    StepScalar,
)
from repdl.callcache.scalars import VariableScalars
from repdl.callcache.spans import (
    alike,
    extent,
    flat,
    index_of,
    is_reshaped,
    reshaped_source,
    span_of,
    tensors_of,
    unique,
)
from repdl.callcache.trace import Derivative, Trace, ValueCheck, ValueRange, Write

_Spans = Mapping[int, Span]
"""By the id of a tensor."""


class NotCacheable(Exception):
    """Running the kernels again is not all that a call does."""


def plan_call(
    trace: Trace, tensors: Sequence[torch.Tensor], result: Any, differentiates: bool, scalars: VariableScalars
) -> Plan:
    """The plan of a call that returns new tensors, its own, or None.

    Raises:
        NotCacheable: if there is none.
    """
    require(trace.is_cacheable and not trace.changed)
    _require_kernels(trace, tensors)
    positions = [draw.position for draw in trace.draws]
    # With a draw, every check must come before the generator advances: C looks at the position, Python is not asked.
    require(not positions or all(_is_of(c.passes, positions) for c in trace.checks))
    tensors, node = [*tensors, *positions], None
    if differentiates:
        node, tensors, result = _node(trace, tensors, result)
    else:
        require(not trace.derivatives)
    written = [output for call in trace.kernel_calls for output in call.outputs]
    constants = [constant.tensor for constant in trace.constants]
    require(max(len(written), len(constants)) <= c_extension().MOST_TENSORS)
    returns_tuple = type(result) is tuple  # not one of torch.return_types
    returned = result if returns_tuple else (result,)
    results = tuple(_result(value, tensors, written) for value in returned)
    new = {r.index: value for r, value in zip(results, returned) if r.kind == "new"}
    require(len(new) == (len(results) if differentiates else sum(r.kind == "new" for r in results)))
    copies = tuple(_copy(copy, tensors, written) for copy in trace.copies)
    located = _located(flat_arguments(trace) + written, [*tensors, *written, *constants])
    return Plan(
        steps=_steps(trace, located, scalars),
        checks=_checks(trace, tensors),
        draws=tuple(Draw(draw.take, draw.count) for draw in trace.draws),
        outputs=_output_specs(written, new, differentiates),
        constants=tuple(constants),
        scalar_constants=scalars.constants,
        results=results,
        returns_tuple=returns_tuple,
        node=node,
        changed=tuple(c.target for c in copies if spans.is_on_host(tensors[c.target])),  # torch tells of the others
        copies=copies,
    )


def plan_in_place(
    trace: Trace, tensors: Sequence[torch.Tensor], writes: Sequence[Write], result: Result, scalars: VariableScalars
) -> Plan:
    """The plan of a call whose kernels each have a result that goes into one of its tensors.

    Args:
        writes: of each kernel that tensor, and the result.

    Raises:
        NotCacheable: if there is none.
    """
    require(trace.is_cacheable)
    require(not (trace.changed or trace.copies or trace.derivatives or trace.checks or trace.draws))
    require(len(trace.kernel_calls) == len(writes) and len(trace.constants) <= c_extension().MOST_TENSORS)
    _require_kernels(trace, tensors)
    changed = _indices([write.target for write in writes], tensors)
    require(len({*changed}) == len(writes))
    constants = [constant.tensor for constant in trace.constants]
    located = dict(_located(unique(flat_arguments(trace)), [*tensors, *constants]))
    for call, write, index in zip(trace.kernel_calls, writes, changed):
        require(call.kernel.layout == "in_place" and call.outputs[0] is write.result)
        require(alike(write.result, write.target))
        located[id(write.result)] = Span(index)
    used = {*located.values()}
    of_changed = {*changed}
    operands = tuple(Operand(i, extent(t), i in of_changed) for i, t in enumerate(tensors) if Span(i) in used)
    require(len(operands) == sum(span.source < len(tensors) for span in used))  # none at an offset in another
    return Plan(
        steps=_steps(trace, located, scalars),
        constants=tuple(constants),
        scalar_constants=scalars.constants,
        results=(result,),
        operands=operands,
        changed=tuple(changed),
    )


def plan_update(trace: Trace, args: Sequence[Any]) -> Plan:
    """The plan of an op that updates lists of tensors, which holds for all scalars.

    Raises:
        NotCacheable: if there is none.
    """
    require(trace.is_cacheable and len(trace.kernel_calls) == 1)
    require(not (trace.copies or trace.derivatives or trace.checks or trace.draws))
    (call,) = trace.kernel_calls
    _require_kernels(trace, flat(args))
    scalars = _floats(call.arguments)
    require(not call.outputs and call.kernel.layout == "lists" and scalars == _floats(args))
    tensors, given = unique(flat(args)), flat(call.arguments)
    indices = _indices(given, tensors)  # otherwise one was copied
    of_changed = {*map(id, trace.changed)}
    changed = tuple(i for i, t in enumerate(tensors) if id(t) in of_changed)
    step = Step(
        *(call.kernel, tuple(call.arguments), (), tuple(map(Span, indices))),
        *(tuple(StepScalar(n, value) for n, (_, value) in enumerate(scalars)), call.threads, call.device),
    )
    operands = tuple(Operand(i, t.nbytes, id(t) in of_changed) for i, t in zip(indices, given))
    return Plan(steps=(step,), operands=operands, changed=changed)


def flat_arguments(trace: Trace) -> list[torch.Tensor]:
    """The tensors that kernels got."""
    return tensors_of(*(call.arguments for call in trace.kernel_calls))


def require(condition: bool) -> None:
    """Raise NotCacheable otherwise."""
    if not condition:
        raise NotCacheable


def _require_kernels(trace: Trace, tensors: Sequence[torch.Tensor]) -> None:
    """All kernels are built for this version, and ran on the device that C finds among the tensors of the call."""
    device, binds = spans.device_of(tensors), c_extension().Recording.binds
    for call in trace.kernel_calls:
        require(binds(call.kernel) and spans.device_of(flat((*call.arguments, *call.outputs))) == device)


def _index(tensor: torch.Tensor, tensors: Sequence[torch.Tensor]) -> int:
    index = index_of(tensor, tensors)
    if index is None:
        raise NotCacheable
    return index


def _indices(given: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> list[int]:
    """Of each that index among `tensors`."""
    known = {id(t): i for i, t in enumerate(tensors)}
    require(all(id(t) in known for t in given))
    return [known[id(t)] for t in given]


def _is_of(passes: ValueRange | None, tensors: Sequence[torch.Tensor]) -> bool:
    return passes is not None and index_of(passes.tensor, tensors) is not None


def _floats(values: Sequence[Any]) -> list[tuple[int, float]]:
    return [(i, value) for i, value in enumerate(values) if type(value) is float]


def _result(value: Any, tensors: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> Result:
    if value is None:
        return Result("none")
    require(isinstance(value, torch.Tensor))
    index = index_of(value, tensors)
    if index is not None:
        return Result("argument", index)
    span = span_of(value, written)
    if span is None or span.offset:
        raise NotCacheable
    return Result("new", span.source)


def _located(given: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> _Spans:
    known = {id(t): Span(i) for i, t in reversed([*enumerate(sources)])}
    found = {id(t): known.get(id(t)) or span_of(t, sources) for t in given}
    require(None not in found.values())
    return found  # type: ignore[return-value]


def _steps(trace: Trace, located: _Spans, scalars: VariableScalars) -> tuple[Step, ...]:
    calls = trace.kernel_calls
    return tuple(
        Step(
            *(call.kernel, tuple(call.arguments), tuple(call.outputs)),
            *(tuple(located[id(t)] for t in tensors_of(call.arguments, call.outputs)), of_step),
            *(call.threads, call.device),
        )
        for call, of_step in zip(calls, scalars.steps or ((),) * len(calls))
    )


def _output_specs(
    written: Sequence[torch.Tensor], results: Mapping[int, torch.Tensor], differentiates: bool
) -> tuple[torch.Tensor, ...]:
    """How each new tensor is allocated: a result that is a view of all of one, as that view."""
    require(all(t.is_inference() or not t._version for t in written))  # else something else wrote there too
    specs = list(written)
    for index, result in results.items():
        whole = written[index]
        same = is_reshaped(result, whole) if differentiates else extent(result) == extent(whole)
        require(result is whole or same)
        specs[index] = result
    return tuple(map(spans.without_memory, specs))


def _copy(copy: Write, tensors: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> Copy:
    return Copy(len(tensors) + _index(copy.result, written), _index(copy.target, tensors), copy.target.nbytes)


def _checks(trace: Trace, tensors: Sequence[torch.Tensor]) -> tuple[Check, ...]:
    """In order, without those that pass wherever an earlier one has passed: of a range that is exact."""
    checks, exact = list[Check](), list[ElementRange]()
    for given in trace.checks:
        check = _check(given, tensors)
        if check.passes is None or check.passes not in exact:
            checks.append(check)
            if given.passes is not None and check.passes is not None and given.passes.is_exact:
                exact.append(check.passes)
    return tuple(checks)


def _check(check: ValueCheck, tensors: Sequence[torch.Tensor]) -> Check:
    """The check, whose arguments may be tensors of the call in another shape."""
    sources = [reshaped_source(a, tensors) for a in check.arguments]
    shapes = [None if s is a else a.shape for s, a in zip(sources, check.arguments)]
    function = check.function if not any(shapes) else _with_shapes(check.function, shapes)
    return Check(function, _arguments(sources, tensors), _element_range(check.passes, tensors))


def _with_shapes(function: Callable[..., Any], shapes: Sequence[torch.Size | None]) -> Callable[..., Any]:
    def reshaping(*given: Any) -> Any:
        return function(*(g if shape is None else g.reshape(shape) for g, shape in zip(given, shapes)))

    return reshaping


def _element_range(passes: ValueRange | None, tensors: Sequence[torch.Tensor]) -> ElementRange | None:
    """What C looks at; None: the check itself does."""
    if passes is None:
        return None
    tensor = passes.tensor
    index = index_of(reshaped_source(tensor, tensors), tensors)
    if index is None or not spans.is_on_host(tensor) or tensor.dtype != torch.int64 or not tensor.is_contiguous():
        return None
    return ElementRange(index, passes.first, tensor.numel(), passes.low, passes.end, passes.other)


def _arguments(
    values: Sequence[Any], tensors: Sequence[torch.Tensor], constants: Sequence[torch.Tensor] = ()
) -> tuple[Argument, ...]:
    found = []
    for value in values:
        index = index_of(value, tensors)
        require(index is not None or not isinstance(value, torch.Tensor) or index_of(value, constants) is not None)
        found.append(Argument(index, None if index is not None else value))
    return tuple(found)


def _node(trace: Trace, tensors: Sequence[torch.Tensor], result: Any) -> tuple[Node, list[torch.Tensor], Any]:
    """The node of autograd of the one op with a derivative that a call is; then the node's tensors, and its outputs.

    Where the call gave or returned a tensor in another shape, it is that one that the node of autograd sees.
    """
    if len(trace.derivatives) != 1:
        return _node_of_chain(trace, tensors, result)
    derivative: Derivative = trace.derivatives[0]
    sources = [reshaped_source(a, tensors) for a in derivative.tensors]
    arguments = _arguments(sources, tensors, [constant.tensor for constant in trace.constants])
    several = isinstance(derivative.output, tuple)
    outputs = list(derivative.output) if several else [derivative.output]
    item = next((i for i, o in enumerate(outputs) if o is result or is_reshaped(result, o)), None)
    if item is not None:
        outputs[item] = result
    else:  # then it is all of them
        require(several and type(result) is tuple and len(outputs) == len(result) and all(map(is_, outputs, result)))
    require(derivative.shared.reshape([*sources, *outputs]))
    node = Node(derivative.apply, arguments, item if several else None, derivative.shared)
    return node, sources, tuple(outputs) if several else outputs[0]


def _node_of_chain(trace: Trace, tensors: Sequence[torch.Tensor], result: Any) -> tuple[Node, list[torch.Tensor], Any]:
    """The same of several ops with derivatives, where one gets the result of another: all in one node."""
    links = trace.derivatives
    require(bool(links) and links[-1].output is result and not trace.draws)
    require(all(isinstance(link.output, torch.Tensor) for link in links))
    made = [link.output for link in links]
    constants = [constant.tensor for constant in trace.constants]
    # Each time that one takes a tensor of the call, in the order in which autograd would run the nodes of the ops: it
    # adds the gradients in that order.
    taken = [t for link in reversed(links) for t in link.tensors if index_of(t, made) is None]
    uses = [t for t in taken if t.requires_grad]
    require({*map(id, uses)} == {id(t) for t in tensors if t.requires_grad})  # one without an edge has no gradient
    require({*map(id, made)} <= {id(result), *(id(t) for link in links for t in link.tensors)})
    others = unique([*tensors, *(t for t in taken if index_of(t, constants) is not None)])
    inputs = [*uses, *(t for t in others if index_of(t, uses) is None)]
    saved = [link.saved() for link in links]
    outputs = unique([result, *(t for t in tensors_of(*saved) if index_of(t, inputs) is None)])
    require(len(inputs) <= c_extension().MOST_NODE_TENSORS)
    require(len(outputs) + sum(map(len, saved)) <= c_extension().MOST_TENSORS)
    shared = links[-1].shared.chain(links, saved, inputs, outputs)
    several = len(outputs) > 1
    node = Node(links[-1].apply, _arguments(inputs, tensors, constants), 0 if several else None, shared)
    return node, inputs, tuple(outputs) if several else result
