"""How a registered op meets torch's machinery: autograd, torch.func and torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _C
from torch._C._functorch import TransformType, peek_interpreter_stack, unwrap_if_dead
from torch._functorch.utils import enable_single_level_autograd_function
from torch._library.autograd import supports_tensorlist
from torch._library.utils import fill_defaults
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction
from torch.utils import _pytree as pytree

from repdl.callcache import THREAD, Derivative, as_node, do_not_cache, recorded_node_methods
from repdl.dynamo import skip_dynamo
from repdl.errors import UnsupportedError
from repdl.registry.backend import BACKENDS
from repdl.registry.derivative import SharedDerivative, UnusualError, is_executed
from repdl.registry.op import OPS
from repdl.settings.generation import GENERATION

Function = Callable[..., Any]

_AFTER_AUTOGRAD = _C._after_autograd_keyset
grad_enabled, enable_grad = torch.is_grad_enabled, torch.enable_grad


def _any_requires_grad(*args: Any) -> bool:
    """For torch 2.6, which lacks it: whether a tensor, or one in a list, requires a gradient."""
    tensors = (t for a in args for t in (a if isinstance(a, (list, tuple)) else (a,)))
    return any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors)


any_requires_grad = getattr(_C, "_any_requires_grad", _any_requires_grad)

_plain: dict[int, bool] = {}


def _is_plain(keyset: Any) -> bool:
    """Whether the next stop of the dispatcher is a device's own kernel."""
    key = keyset.raw_repr()
    if key not in _plain:
        _plain[key] = keyset.highestPriorityTypeId() in (_C.DispatchKey.CPU, _C.DispatchKey.CUDA)
    return _plain[key]


def check_reverse_mode(name: str, is_transform: bool = False) -> None:
    """Raise in forward mode, in which torch would take the derivative of an op for 0.

    Args:
        name: the op.
        is_transform: whether torch.func's transforms are looked at, as where the op is traced.

    Raises:
        UnsupportedError: there.
    """
    if forward_ad._current_level < 0:
        if not is_transform:
            return
        transform = peek_interpreter_stack()
        if transform is None or transform.key() != TransformType.Jvp:
            return
    raise UnsupportedError(
        f"{name}: called in forward-mode differentiation (torch.func.jvp, dual_level), which would "
        f"take its derivative for 0; expected reverse mode; use torch.autograd.grad"
    )


def autograd_kernel(
    overload: Any, kernel: Function, setup_context: Function | None, backward: Function, is_whole: bool
) -> Function:
    """The kernel of an op at the dispatcher's Autograd key.

    With nothing in between (no mode, no tracing, no transform) it goes straight to `kernel`:
    a second way through the dispatcher costs more than all checks.

    Args:
        is_whole: `backward` has one function for all gradients that there are, so nobody asks which are wanted.
    """
    name, schema = overload._opname, overload._schema
    types = [str(value.type) for value in (*schema.arguments, *schema.returns)]
    lists = any(kind.startswith("List[") and "Tensor" in kind for kind in types)
    arguments = len(schema.arguments)

    def redispatch(args: tuple[Any, ...], keyset: Any) -> Any:
        if keyset is None:
            return kernel(*args)
        # torch.func's outer transforms come below, and record this call if gradients are enabled:
        # a Function's forward runs with them disabled.
        with enable_grad():
            return overload.redispatch(keyset & _AFTER_AUTOGRAD, *args)

    def forward(ctx: Any, *args: Any) -> Any:
        # The last argument is the dispatcher's key set, or None for the plain way.
        with _C._AutoDispatchBelowAutograd():
            output = redispatch(args[:-1], args[-1])
            ctx.backend = BACKENDS.scope()
            if setup_context is not None:
                inputs = args[:-1]
                if len(inputs) < arguments:  # the dispatcher takes away what equals its default
                    inputs, _ = fill_defaults(schema, inputs, {})
                setup_context(ctx, inputs, output)
            return output

    def gradients(ctx: Any, *grads: Any) -> Any:
        needs = ctx.needs_input_grad
        ctx.needs_input_grad = (needs if lists or is_whole else _executed(ctx))[:-1]  # what the schema has
        try:
            if ctx.backend == (BACKENDS.scope() if GENERATION.has_scopes else ""):
                result = backward(ctx, *grads)
            else:  # autograd runs in another thread, or after the block that chose the backend
                with BACKENDS.use(ctx.backend):
                    result = backward(ctx, *grads)
        finally:
            ctx.needs_input_grad = needs
        return (*result, None) if isinstance(result, tuple) else (result, None)

    # Of one level, as the ops of torch: torch.func's transforms are layers of the dispatcher,
    # and each of them makes a node of its own here.
    members = {"forward": staticmethod(skip_dynamo(forward)), "backward": staticmethod(skip_dynamo(gradients))}
    function = type(f"{name}_with_derivative", (_SingleLevelFunction,), members)
    apply = (supports_tensorlist(function) if lists else function).apply  # type: ignore[union-attr]
    members = recorded_node_methods()
    replay_apply = as_node(type(f"{name}_replayed", (_SingleLevelFunction,), members))

    def autograd(keyset: Any, *args: Any) -> Any:
        plain = len(args) == arguments and not lists and _is_plain(keyset & _AFTER_AUTOGRAD)
        if not plain:
            check_reverse_mode(name, True)
        if grad_enabled() and any_requires_grad(*args):
            if plain:
                output = apply(*args, None)
                if THREAD.trace is not None:
                    tensors = [a for a in args if isinstance(a, torch.Tensor)]
                    try:
                        shared = SharedDerivative(args, tensors, output, setup_context, backward, is_whole)
                    except UnusualError:
                        do_not_cache()
                    else:
                        THREAD.trace.derivatives.append(Derivative(replay_apply, tensors, output, shared))
                return output
            with enable_single_level_autograd_function():
                return apply(*args, keyset)
        if plain:
            return kernel(*args)
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & _AFTER_AUTOGRAD, *args)

    return skip_dynamo(autograd)


def _executed(ctx: Any) -> tuple[bool, ...]:
    """Of each argument, whether this backward pass wants its gradient."""
    needs: tuple[bool, ...] = ctx.needs_input_grad
    if sum(needs) < 2:
        return needs
    nodes = iter([node for node, _ in ctx.next_functions if node is not None])
    return tuple(is_needed and is_executed(next(nodes, None)) for is_needed in needs)


def of_formula(
    formula: Function, args: Sequence[Any], wanted: Sequence[bool], grads: Sequence[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """The derivative of a formula over registered ops, for a backward function: of each of `args` that is `wanted`.

    Outputs whose gradient is None have no part in it.
    """
    do_not_cache()
    # Where a level of torch.func has ended, what was saved there stands for a tensor of the level outside.
    args = [unwrap_if_dead(value) if isinstance(value, torch.Tensor) else value for value in args]
    places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
    if peek_interpreter_stack() is not None:
        results = _by_transform(formula, args, places, grads)
    else:
        results = _by_autograd(formula, args, places, grads)
    found = dict(zip(places, results))
    return [found.get(i) for i in range(len(args))]


def _by_transform(
    formula: Function, args: Sequence[Any], places: Sequence[int], grads: Sequence[torch.Tensor | None]
) -> Sequence[torch.Tensor | None]:
    """Inside a transform of torch.func, which has no leaves of its own."""

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(args)
        for i, tensor in zip(places, tensors):
            given[i] = tensor
        outputs = formula(*given)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple(output for output, grad in zip(outputs, grads) if grad is not None)

    pull = torch.func.vjp(function, *(args[i] for i in places))[1]
    return pull(tuple(grad for grad in grads if grad is not None))  # type: ignore[no-any-return]


def _by_autograd(
    formula: Function, args: Sequence[Any], places: Sequence[int], grads: Sequence[torch.Tensor | None]
) -> Sequence[torch.Tensor | None]:
    again = grad_enabled() and any_requires_grad(*args, *grads)
    with enable_grad():
        given = list(args)
        for i in places:
            value = args[i]
            given[i] = value.view_as(value) if again and value.requires_grad else value.detach().requires_grad_()
            assert given[i].requires_grad
        outputs = formula(*given)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    pairs = [(output, grad) for output, grad in zip(outputs, grads) if output.requires_grad and grad is not None]
    if not pairs:  # constants
        return [None] * len(places)
    outputs, cotangents = zip(*pairs)
    inputs = [given[i] for i in places]
    return torch.autograd.grad(outputs, inputs, cotangents, create_graph=again, allow_unused=True)


def derivative_of_formula(name: str) -> tuple[Function, Function]:
    """`setup_context` and `backward` of an op with a formula: the derivative of that, which is computed again."""

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.tensors = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        ctx.others = [None if isinstance(value, torch.Tensor) else value for value in inputs]
        ctx.save_for_backward(*(inputs[i] for i in ctx.tensors))
        if isinstance(output, tuple):  # a gradient of zeros would be a term of sums
            ctx.set_materialize_grads(False)

    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        args, formula = list(ctx.others), OPS[name].formula
        assert formula is not None
        for i, tensor in zip(ctx.tensors, ctx.saved_tensors):
            args[i] = tensor
        return tuple(of_formula(formula, args, ctx.needs_input_grad, grads))

    return setup_context, backward


def batching_rule(overload: Any) -> Function:
    """vmap of an op: one call an example, so that each has the bits that it has alone."""

    def run(info: Any, in_dims: Any, *args: Any) -> Any:
        leaves, spec = pytree.tree_flatten(args)
        dims = pytree.tree_leaves(in_dims)
        size = info.batch_size
        if size == 0:  # the shapes of an example, which has no values
            leaves = [x.new_zeros(_without(x.shape, d)) if d is not None else x for x, d in zip(leaves, dims)]
            outputs, out_spec = pytree.tree_flatten(overload(*pytree.tree_unflatten(leaves, spec)))
            stacked = [output.new_empty((0, *output.shape)) for output in outputs]
        else:
            rows = []
            for i in range(size):
                example = [x.select(d, i) if d is not None else x for x, d in zip(leaves, dims)]
                row, out_spec = pytree.tree_flatten(overload(*pytree.tree_unflatten(example, spec)))
                rows.append(row)
            stacked = [torch.stack(column) for column in zip(*rows)]
        return pytree.tree_unflatten(stacked, out_spec), pytree.tree_unflatten([0] * len(stacked), out_spec)

    return run


def _without(shape: torch.Size, dim: int) -> list[int]:
    return [n for i, n in enumerate(shape) if i != dim]
