"""Which code Dynamo compiles: while `repdl.enable()` holds that for the backend "repdl"; while ops are recorded, none.

Other backends make code of their own of torch's ops, with other bits. What they are asked to compile runs uncompiled:
programs and libraries ask for speed, not for other bits. A warning says so, once a backend.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo import config, eval_frame
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.optimizer import OptimizerVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from repdl.compiling import state
from repdl.compiling.backend import is_ours, is_supported
from repdl.dynamo import set_dynamo_skip

_REWRITTEN = "addcdiv", "_foreach_lerp_"
"""Functions of torch that Dynamo takes apart, into others with other bits."""
_SETTINGS = {"enable_dynamo_decompositions": False, "allow_rnn": True, "skip_nnmodule_hook_guards": False}
_SETTINGS = {name: value for name, value in _SETTINGS.items() if hasattr(config, name)}  # of this version of torch
_STEP = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__
"""What every step of an optimizer is called from."""


Decision = Callable[[Any], Any]
"""Of what is to be compiled, as Dynamo holds its backend, what Dynamo compiles the frames with that are entered."""
_stance = eval_frame._callback_from_stance
_decisions: list[Decision] = []


def _first_decision(callback: Any) -> Any:
    decision = next(iter(_decisions), _stance)  # the last block may end meanwhile, in another thread
    return decision(callback)


@contextmanager
def _decided(decision: Decision, place: int) -> Iterator[None]:
    """Until the end of the block Dynamo asks the first decision that there is. Blocks may end in any order."""
    _decisions.insert(place, decision)
    eval_frame._callback_from_stance = _first_decision
    try:
        yield
    finally:
        _decisions.remove(decision)
        if not _decisions:
            eval_frame._callback_from_stance = _stance


@contextmanager
def uncompiled() -> Iterator[None]:
    """Until the end of the block, in all threads, nothing runs compiled: each op is called where the program has it.

    What the backend "repdl" compiles has the same bits. For others, whose code has other bits, a warning says so.
    """
    warned = {"eager"}

    def none(callback: Any) -> None:
        if callback not in (None, False) and not is_ours(eval_frame.innermost_backend(callback)):
            _warn_once(
                warned, callback, "record", 'as its code has no ops to note, and results may differ; level "step" '
                "records it as it is",
            )  # fmt: skip

    with ExitStack() as stack:
        if is_supported():
            stack.enter_context(_decided(none, 0))
        else:
            stack.push(torch.compiler.set_stance("force_eager"))
        yield


def _warn_once(warned: set[str], callback: Any, by: str, why: str) -> None:
    """Of a backend, as Dynamo holds it, whose code does not run."""
    backend = eval_frame.innermost_backend(callback)
    backend = getattr(backend, "compiler_fn", backend)
    name = str(getattr(backend, "compiler_name", getattr(backend, "__name__", backend)))
    if name not in warned:
        warned.add(name)
        said = f"repdl.{by}: what torch.compile would compile by the backend {name} runs uncompiled, {why}"
        warnings.warn(said, stacklevel=5)


@contextmanager
def only_ours(on_uncovered: str, around: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Until the end of the block, in all threads, code is compiled for "repdl" alone, and as ops are while it holds.

    Args:
        around: entered around the compilation of each frame.
    """
    warned = {"eager"}  # which makes no code

    def chosen(callback: Any) -> Any:
        """What Dynamo does with the frames that are entered."""
        if callback is None or callback is False:
            return None
        if is_ours(eval_frame.innermost_backend(callback)):
            own = callback if eval_frame._stance.stance == "force_eager" else _stance(callback)
            return _as_written(own, around)
        why = 'as its code has other bits; pass backend="repdl", or backend="eager" to be silent'
        _warn_once(warned, callback, "enable", why)
        return None

    with ExitStack() as stack:
        stack.push(torch.compiler.set_stance("force_eager"))
        if is_supported():
            stack.enter_context(_decided(chosen, len(_decisions)))
            stack.enter_context(_nothing_rewritten())
            stack.enter_context(_optimizers_uncompiled())
        stack.callback(state.hold, state.UNCOVERED)
        state.hold(on_uncovered)
        yield


def _as_written(callback: Any, around: Callable[[], AbstractContextManager[None]]) -> Any:
    """The same, which leaves functions as the program calls them, and follows recurrent layers."""
    if callback is None or callback is False:
        return callback

    def compiling(*args: Any, **kwargs: Any) -> Any:
        with around(), config.patch(_SETTINGS):  # of this thread
            return callback(*args, **kwargs)

    compiling._torchdynamo_orig_backend = callback  # type: ignore[attr-defined]  # by which Dynamo knows its code
    return compiling


@contextmanager
def _nothing_rewritten() -> Iterator[None]:
    handlers = TorchInGraphFunctionVariable._get_handlers()
    taken = {getattr(torch, name): handlers.pop(getattr(torch, name), None) for name in _REWRITTEN}
    try:
        yield
    finally:
        handlers.update({function: handler for function, handler in taken.items() if handler is not None})


@contextmanager
def _optimizers_uncompiled() -> Iterator[None]:
    """The steps of optimizers break the graph: while torch traces one, its Python takes formulas with other bits."""
    call_method = OptimizerVariable.call_method

    def followed(self: Any, tx: Any, name: str, *args: Any) -> Any:
        if name in ("step", "_init_group"):  # the second where the first is called by another name
            unimplemented(
                gb_type="step of an optimizer",
                context=type(self.value).__name__,
                explanation="While repdl.enable() holds, the steps of optimizers are not compiled.",
                hints=["Call optimizer.step() outside of the compiled function, or compile it without fullgraph=True."],
            )
        return call_method(self, tx, name, *args)

    with patch.object(OptimizerVariable, "call_method", followed):
        set_dynamo_skip([_STEP])
        try:
            yield
        finally:
            set_dynamo_skip([_STEP], False)


__all__ = ["only_ours", "uncompiled"]
