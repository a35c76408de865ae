"""The derivative that recorded calls of one signature share."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import _C

from repdl.callcache import Derivative, cache_calls, do_not_cache
from repdl.callcache.spans import without_memory
from repdl.registry.backend import BACKENDS
from repdl.settings.generation import GENERATION

Function = Callable[..., Any]

_LARGE = 1 << 15
"""Elements of a call's tensors from which on it pays to ask which gradients are wanted."""


class UnusualError(Exception):
    """`setup_context` does what a recording does not have."""


class _Context:
    """What `setup_context` gets in place of autograd's context: remembers what it does with it."""

    def __init__(self, needs_input_grad: Sequence[bool]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved: Sequence[torch.Tensor | None] = ()
        self.constant: Sequence[torch.Tensor] = ()

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        self.saved = tensors

    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None:
        self.constant = tensors

    def __getattr__(self, name: str) -> Any:
        raise UnusualError


class SharedDerivative:
    """What calls of one signature have in common: their derivative, and of their tensors and outputs which are saved,
    in which shape if it is another one, and which have no gradient."""

    materializes = True
    """Whether an output without a gradient has one of zeros."""

    def __init__(
        self,
        args: Sequence[Any],
        tensors: Sequence[torch.Tensor],
        output: Any,
        setup_context: Function | None,
        backward: Function,
        is_whole: bool,
    ) -> None:
        needs = tuple(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
        context = _Context(needs)
        if setup_context is not None:
            setup_context(context, args, output)
        known = vars(context)
        outputs = output if isinstance(output, tuple) else (output,)
        indices = {id(None): None, **{id(t): n for n, t in enumerate((*tensors, *outputs))}}
        saved, constant = known.pop("saved"), known.pop("constant")
        if any(isinstance(value, torch.Tensor) for value in known.values()):
            raise UnusualError
        try:
            self.saved = tuple(indices[id(t)] for t in saved)
            self.constant = tuple(indices[id(t)] for t in constant)
        except KeyError:
            raise UnusualError from None
        self.views: tuple[torch.Size | None, ...] = (None,) * len(self.saved)
        self._known, self._backward, self._outputs = known, backward, len(outputs)
        self._wanted = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        self._of_op, self._inputs = [t.shape for t in (*tensors, *outputs)], len(tensors)
        self._chooses = not is_whole and sum(needs) > 1 and sum(t.numel() for t in tensors) >= _LARGE
        self._see(self._of_op)

    def reshape(self, given: Sequence[torch.Tensor]) -> bool:
        """The node of autograd sees these in place of the op's tensors and outputs: the same ones in other shapes.

        It saves what the op's node would, views of its inputs; False where that can't be: a view of an output that
        is not made yet.
        """
        other = [None if t.shape == of_op else of_op for of_op, t in zip(self._of_op, given)]
        self.views = tuple(None if n is None else other[n] for n in self.saved)
        if any(n is not None and n >= self._inputs and shape is not None for n, shape in zip(self.saved, self.views)):
            return False
        self._see([t.shape for t in given])
        return True

    def chain(self, *args: Any) -> ChainDerivative:
        """That of several ops, this one among them."""
        return ChainDerivative(*args)

    def _see(self, shapes: list[torch.Size]) -> None:
        self._seen = shapes
        self._to: dict[tuple[bool, ...], Function] = {}
        self.derivative = None if self._chooses else self._derivative_to((True,) * self._inputs)
        """A function of gradients and of what was saved; None: ask `derivative_of`."""

    def derivative_of(self, node: Any) -> Function:
        """The derivative for those inputs of a node of autograd whose gradients are wanted this time."""
        return self.derivative_to(_executed(node))

    def derivative_to(self, executed: tuple[bool, ...]) -> Function:
        """The derivative for those inputs that are."""
        if self.derivative is not None:
            return self.derivative
        if executed not in self._to:
            self._to[executed] = self._derivative_to(executed)
        return self._to[executed]

    def _derivative_to(self, executed: Sequence[bool]) -> Function:
        count, wanted, backward, inputs = self._outputs, self._wanted, self._backward, self._inputs
        needs = list(self._known["needs_input_grad"])
        for i, is_wanted in zip(wanted, executed):
            needs[i] &= is_wanted
        known = self._known | {"needs_input_grad": tuple(needs)}

        def derivative(*given: Any) -> Any:
            grads, rest = given[:count], given[count:]
            context = SimpleNamespace(**known, saved_tensors=rest)
            with BACKENDS.use("") if GENERATION.has_scopes else nullcontext():
                result = backward(context, *grads)
            return (*(result[i] for i in wanted), None) if isinstance(result, tuple) else (result, None)

        pairs = [(None, None) if of_op == seen else (of_op, seen) for of_op, seen in zip(self._of_op, self._seen)]
        before, after = zip(*pairs)
        if all(shape is None for shape in before):
            return cache_calls(derivative)
        shapes = *before[inputs:], *(None for _ in self.saved)

        def reshaped(*given: Any) -> Any:
            return (*_reshaped(derivative(*_reshaped(given, shapes)), after[:inputs]), None)

        return cache_calls(reshaped)


class _Link(NamedTuple):
    """An op of a chain: what its calls share, its result, by a number and without memory, by their numbers the tensors
    that it took (None: without a gradient), and where what it saved is among the gradients of the node and what that
    saved."""

    shared: SharedDerivative
    output: int
    like: torch.Tensor
    tensors: Sequence[int | None]
    saved: slice


class ChainDerivative:
    """The same of a call of several ops with derivatives, one of which gives the result: all in one node.

    Results of the others that some op saves are outputs of the node beside that of the call, so that second derivatives
    find them; only then they have a gradient, which is added to that of the later ops.
    """

    materializes = False

    def __init__(
        self,
        links: Sequence[Derivative],
        saved: Sequence[Sequence[torch.Tensor | None]],
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
    ) -> None:
        """`inputs`: first one for each time that a link takes one with a gradient, the last link first."""
        number = {id(t): n for n, t in reversed([*enumerate([*inputs, *outputs])])}
        # What the links would save, in their order: the first calls do, and checkpoints count it.
        self.saved = tuple(None if t is None else number[id(t)] for of_link in saved for t in of_link)
        self.views = (None,) * len(self.saved)
        self.constant = tuple(number[id(t)] for t in outputs if not t.requires_grad)
        self._inputs, self._outputs = len(inputs), [number[id(t)] for t in outputs]
        made = {id(link.output): number.setdefault(id(link.output), -1 - n) for n, link in enumerate(links)}
        begins = itertools.accumulate(map(len, saved), initial=len(outputs))
        uses = itertools.count()
        self._links = [
            _Link(
                link.shared,
                made[id(link.output)],
                without_memory(link.output),
                [(made[id(t)] if id(t) in made else next(uses)) if t.requires_grad else None for t in link.tensors],
                slice(begin, begin + len(of_link)),
            )
            for link, of_link, begin in reversed([*zip(links, saved, begins)])
        ]
        self._to: dict[tuple[bool, ...], Function] = {}
        chooses = any(link.shared.derivative is None for link in links)
        self.derivative = None if chooses else self._derivative_to((True,) * len(inputs))

    def derivative_of(self, node: Any) -> Function:
        """As of `SharedDerivative`."""
        executed = _executed(node)
        if executed not in self._to:
            self._to[executed] = self._derivative_to(executed)
        return self._to[executed]

    def _derivative_to(self, executed: tuple[bool, ...]) -> Function:
        """The derivative for those inputs that are."""
        wanted, steps = {number for number, is_wanted in enumerate(executed) if is_wanted}, []
        for link in reversed(self._links):
            of_link = tuple(number in wanted for number in link.tensors)
            if any(of_link):
                wanted.add(link.output)
                steps.append((link, link.shared.derivative_to(of_link)))
        return cache_calls(functools.partial(self._run, steps[::-1]))

    def _run(self, steps: Sequence[tuple[_Link, Function]], *given: Any) -> Any:
        grads, reached = dict(zip(self._outputs, given)), set[int | None]()
        for link, derivative in steps:
            grad = grads.get(link.output)
            if grad is None:
                if link.output not in reached:  # second derivatives may come from what is saved alone
                    continue
                grad = torch.zeros_like(link.like)  # as autograd makes it for a node
            for number, value in zip(link.tensors, derivative(grad, *given[link.saved])):
                reached.add(number)
                if number is None or value is None:
                    continue
                other = grads.get(number)
                if other is not None:
                    do_not_cache()  # autograd adds by torch
                    value = value + other
                grads[number] = value
        return (*(grads.get(number) for number in range(self._inputs)), None)


def is_executed(node: Any) -> bool:
    """Whether the backward pass that runs now goes on to a node: `torch.autograd.grad` goes to few of them.

    True if there is none, so that nothing is left out.
    """
    try:
        return node is None or bool(_C._will_engine_execute_node(node))
    except RuntimeError:  # of a leaf that is asked for
        return True


def _executed(node: Any) -> tuple[bool, ...]:
    """Of each tensor of a node."""
    return tuple(is_executed(other) for other, _ in node.next_functions)


def _reshaped(tensors: Sequence[Any], shapes: Sequence[torch.Size | None]) -> Iterator[Any]:
    return (t if t is None or shape is None else t.reshape(shape) for t, shape in zip(tensors, shapes))
