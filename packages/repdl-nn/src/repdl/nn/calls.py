"""The calls of a converted model: what its own code computes by torch's functions is computed by RepDL, or refused.

Two hooks of the model begin and end the extent of a call (`repdl.overrides.within`). A third looks at the loss, once.
"""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import is_dataclass
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from repdl.compiling import is_traced
from repdl.dynamo import constant_result
from repdl.nn.ops_of_loss import ops_of_loss
from repdl.overrides.within import Owner, begin, end


class _Call(NamedTuple):
    """One that is under way: Python's frame of it, and what held before."""

    frame: FrameType
    before: Owner | None

    def is_running(self) -> bool:
        """Whether its frame is not left, as after an interrupt, which calls no hooks."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


class _Thread(threading.local):
    def __init__(self) -> None:
        self.open: list[_Call] = []


_THREAD = _Thread()


class Calls:
    """The hooks of a converted model, which copies of it have too.

    Args:
        owner: the model's name, and whether what is not reproducible raises; else it is a warning.
        code: whether the model has code of its own; if not, hooks may come, and losses.
    """

    def __init__(self, owner: Owner, code: bool) -> None:
        self.owner, self.code = owner, code
        self._has_seen_loss = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Calls, (self.owner, self.code)

    def attach(self, model: torch.nn.Module) -> None:
        """Begin and end the calls of `model`, and those of its parts as calls of it only."""
        for module in model.modules():
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                for key in [k for k, hook in hooks.items() if isinstance(getattr(hook, "__self__", None), Calls)]:
                    del hooks[key]
        model.register_forward_pre_hook(self.before, prepend=True, with_kwargs=True)
        model.register_forward_hook(self.after, always_call=True)

    def before(self, model: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Before a call of the model."""
        if torch.compiler.is_compiling():
            if self.code:
                _compiled(self.owner.name)
            return
        calls = _THREAD.open
        while calls and not calls[-1].is_running():
            end(calls.pop().before)
        calls.append(_Call(sys._getframe(1), begin(self.owner)))

    def after(self, model: torch.nn.Module, args: Any, result: Any) -> None:
        """After a call of the model, or an exception in it."""
        if torch.compiler.is_compiling():
            return
        end(_THREAD.open.pop().before)
        if not self._has_seen_loss and torch.is_grad_enabled():
            self._await_loss(result)

    def _await_loss(self, result: Any) -> None:
        """Look at what a backward pass has come through when it comes to the results, if it is the first."""

        def came(grads: Any) -> None:
            if not self._has_seen_loss:
                self._has_seen_loss = True
                found = ops_of_loss(lambda node: self in node.metadata)
                if found is not None:
                    warnings.warn_explicit(
                        _of_the_loss(self.owner.name, found.names), UserWarning, found.file, found.line
                    )

        for output in pytree.tree_leaves(getattr(result, "__dict__", result) if is_dataclass(result) else result):
            node: Any = output.grad_fn if isinstance(output, torch.Tensor) else None
            if node is not None and self not in node.metadata:
                node.metadata[self] = True
                node.register_prehook(came)


def _of_the_loss(name: str, ops: tuple[str, ...]) -> str:
    return (
        f"the loss computed of the results of {name}, converted by from_torch_module, is not reproducible, nor is "
        f"what is trained with it: torch's {', '.join(ops)} {'has' if len(ops) == 1 else 'have'} other bits on other "
        "machines. Compute the loss in the forward of the model, or by repdl.nn.functional or a layer of repdl.nn; or "
        "call repdl.enable(), which computes the whole program by RepDL. repdl.audit of a function that does a whole "
        "step of training shows all ops, with their lines."
    )


def has_code(model: torch.nn.Module) -> bool:
    """Whether a converted model has code that is neither torch's containers' nor RepDL's: a `forward` or a hook."""
    for module in model.modules():
        if module._forward_pre_hooks or module._forward_hooks or module._backward_hooks or module._backward_pre_hooks:
            return True
        owner = next(c for c in type(module).__mro__ if "forward" in vars(c))
        if owner.__module__.partition(".")[0] not in ("torch", "repdl"):
            return True
    return False


@constant_result
def _compiled(name: str) -> None:
    """While torch.compile traces a call, in whose code the model's own torch functions are torch's."""
    if not is_traced():  # which refuses in the graph itself
        warnings.warn(
            f"{name}, converted by from_torch_module, is compiled by another backend than repdl, whose code computes "
            "what its forward calls of torch as torch does, and leaves out roundings where it fuses: pass "
            'backend="repdl", with repdl.enable() where the forward calls functions of torch',
            stacklevel=2,
        )


__all__ = ["Calls", "has_code"]
