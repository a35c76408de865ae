"""The backend that torch knows as "repdl": autograd's forward and backward graph, run as they were traced.

No rounding moves and nothing is computed twice: each op of the graph has the kernel that it has without
`torch.compile`, so the bits are those of the program that is not compiled. Chains of pointwise ops run block by block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule

from repdl.compiling import state
from repdl.compiling.chains import fuse, registered
from repdl.compiling.checking import check
from repdl.compiling.constants import fold
from repdl.compiling.parts import draw_once, partition
from repdl.compiling.zeros import guard_bits, keep_nans
from repdl.errors import UnsupportedError
from repdl.overrides.refusal import mute
from repdl.registry import functions

Function = Callable[..., Any]


def compile_graph(graph: GraphModule, inputs: Sequence[Any], **options: Any) -> Function:
    """What `torch.compile` runs in the place of a graph that Dynamo has traced.

    Raises:
        UnsupportedError: at each call, if the graph has an op, forward or backward, that is not reproducible; in the
            first, with a mode or options, or with a torch that lacks what this backend needs.
    """
    if options:
        raise UnsupportedError(f'torch.compile(backend="repdl"): {options} given, expected neither mode nor options')
    if not is_supported():
        raise UnsupportedError(
            f'torch.compile(backend="repdl"): torch {torch.__version__} lacks what it needs, expected 2.13 or newer'
        )
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config as functorch
    from torch._functorch._aot_autograd.utils import make_boxed_func
    from torch._inductor import config

    _guard()
    guard_bits()
    keep_nans(graph)
    held = state.now()
    refusals: list[Exception] = []

    def forward(module: GraphModule, _: Sequence[Any]) -> Function:
        warned = check(module, state.UNCOVERED)
        fold(module)
        keep_nans(module)
        fuse(module)
        call_fast(module)
        return make_boxed_func(mute(warned)(module.forward) if warned else module.forward)

    def backward(module: GraphModule, inputs: Sequence[Any]) -> Function:
        draw_once(module)
        return forward(module, inputs)

    def kept(compiler: Function) -> Function:
        """Dynamo would make an error of its own of one that it sees."""

        def compile_part(module: GraphModule, inputs: Sequence[Any]) -> Function:
            try:
                return compiler(module, inputs)
            except Exception as error:
                refusals.append(error)
                return make_boxed_func(module.forward)

        return compile_part

    tracing = aot_autograd(fw_compiler=kept(forward), bw_compiler=kept(backward), partition_fn=partition)
    # Draws stay where they are, also those that nothing takes; the backward graph is refused before the forward runs.
    with config.patch(fallback_random=True), functorch.patch(force_non_lazy_backward_lowering=True):
        compiled = tracing(graph, inputs)
    found: Any = TracingContext.get().fw_metadata
    found.bw_donated_idxs = []  # no graph of ours writes over what it is given: a backward may run twice
    # What is in one storage torch has looked at in these inputs alone.
    writes = bool(found.mutated_inp_runtime_indices)
    shared = writes and _shares(inputs)

    def run(*args: Any) -> Any:
        if refusals:
            raise refusals[0]
        if state.now() != held:  # a block of another contract in this thread, which no guard sees
            return graph(*args)
        if shared or (writes and _shares(args)):
            return graph(*args)
        return compiled(*args)

    return torch._dynamo.disable(run, reason="a graph of RepDL")


def _shares(values: Sequence[Any]) -> bool:
    """Whether tensors are in one storage."""
    storages = [value.untyped_storage()._cdata for value in values if isinstance(value, torch.Tensor)]
    return len(set(storages)) < len(storages)


def is_traced() -> bool:
    """Whether what Dynamo traces now is for this backend."""
    from torch._dynamo.eval_frame import innermost_backend
    from torch._dynamo.symbolic_convert import InstructionTranslator

    backend: Any = InstructionTranslator.current_tx().output.compiler_fn
    return is_ours(innermost_backend(backend))


def is_supported() -> bool:
    """Whether torch has what compiling needs; where it has not, all code runs uncompiled while `enable()` holds."""
    from torch._dynamo import eval_frame
    from torch._functorch import config

    parts = (eval_frame, "innermost_backend"), (config, "force_non_lazy_backward_lowering")
    return all(hasattr(module, name) for module, name in parts)


def is_ours(backend: Any) -> bool:
    """Whether a backend, as Dynamo holds it, is this one."""
    return getattr(backend, "compiler_fn", backend) is compile_graph


def call_fast(graph: GraphModule) -> None:
    """Have registered ops called as derivatives call them, which later calls of a signature replay."""
    for node in graph.graph.nodes:
        name = registered(node)
        if name is not None:
            node.target = _fast(name)
    graph.recompile()


@functools.cache
def _fast(name: str) -> Function:
    function = getattr(functions, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = name  # in the code of graphs
    return call


def _guard() -> None:
    """Have what Dynamo is compiling hold for the state as it is now."""
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.source import AttrSource
    from torch._dynamo.symbolic_convert import InstructionTranslator

    translator = InstructionTranslator.current_tx()
    uncovered = AttrSource(translator.import_source(state.__name__), "UNCOVERED")
    contract = AttrSource(AttrSource(translator.import_source("repdl.contract"), "_setting"), "default")
    install_guard(*(source.make_guard(GuardBuilder.EQUALS_MATCH) for source in (uncovered, contract)))


__all__ = ["compile_graph", "is_ours", "is_supported", "is_traced"]
