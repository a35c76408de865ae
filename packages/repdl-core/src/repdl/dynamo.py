"""What torch.compile neither compiles nor looks into."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

from torch._C._dynamo import eval_frame

Function = Callable[..., Any]


def skip_dynamo(function: Function) -> Function:
    """`function`, which Dynamo neither compiles nor looks into, at no cost of a call.

    Where a graph breaks, Dynamo goes on in every Python frame that is entered, those that
    torch's dispatcher calls included. It would split glue code between `data_ptr()` and the
    kernel that gets the address, and free the tensor in between.
    """
    assert isinstance(function, FunctionType)
    if hasattr(eval_frame, "set_code_exec_strategy"):
        set_dynamo_skip([function.__code__])
        return function

    def run(*args: Any) -> Any:  # torch 2.6: Dynamo is switched off by hand
        before = eval_frame.set_eval_frame(None)
        try:
            return function(*args)
        finally:
            eval_frame.set_eval_frame(before)

    eval_frame.skip_code(run.__code__)  # type: ignore[attr-defined]
    return run


def constant_result(function: Function) -> Function:
    """`function`, whose results are constants to Dynamo.

    As `torch.compiler.assume_constant_result`, which imports all of Dynamo: a second, and a change of the environment.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def set_dynamo_skip(codes: Iterable[CodeType], hidden: bool = True) -> None:
    """Have Dynamo neither compile calls of `codes` nor look into what they call, or do so again."""
    if hasattr(eval_frame, "set_code_exec_strategy"):  # not in torch 2.6
        action = eval_frame._FrameAction.SKIP if hidden else eval_frame._FrameAction.DEFAULT
        for code in codes:
            eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(action, action))


def check_uncompiled() -> None:
    """Raise in a function that is compiled: its compiler would go on in it.

    Raises:
        RuntimeError: there.
    """
    if eval_frame.get_eval_frame_callback() not in (None, False):
        raise RuntimeError(
            "repdl.enable, disable: called in a function that torch.compile compiles, expected outside of it"
        )


__all__ = ["check_uncompiled", "constant_result", "set_dynamo_skip", "skip_dynamo"]
