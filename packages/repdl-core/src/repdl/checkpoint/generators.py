"""The states of all generators of a process, and of those that a program has of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from repdl.errors import CheckpointError
from repdl.generators.generator import Generator, default_generator
from repdl.overrides.switch import is_enabled
from repdl.random import seeding

State = dict[str, Any]


def capture() -> State:
    """The states of torch's, numpy's, Python's and repdl's default generators.

    Those on GPUs are among them where a GPU is in use and draws: under `repdl.enable()` none does.
    """
    state = {
        "torch": torch.default_generator.get_state(),
        "repdl": {"state": default_generator.get_state(), "seeded": seeding._process.seeded},
        "numpy": _numpy(np.random.get_state(legacy=False), np.ndarray, torch.from_numpy),
        "python": random.getstate(),
    }
    if torch.cuda.is_initialized() and not is_enabled():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _numpy(state: Any, kind: type, converted: Callable[[Any], Any]) -> State:
    """A state of numpy with its arrays as tensors, which `torch.load` takes too, or the reverse."""
    words = {name: converted(kept) if isinstance(kept, kind) else kept for name, kept in state["state"].items()}
    return {**state, "state": words}


def check(state: State) -> None:
    """Raise if this process has no such generators.

    Raises:
        CheckpointError: with what there is.
    """
    here = np.random.get_state(legacy=False)["bit_generator"]
    if state["numpy"]["bit_generator"] != here:
        raise CheckpointError(
            f"checkpoint: numpy's global generator was {state['numpy']['bit_generator']}, and here it is {here}; "
            f"expected the same: numpy.random.set_bit_generator"
        )
    count = torch.cuda.device_count()
    if len(state.get("cuda", ())) > count:
        raise CheckpointError(
            f"checkpoint: generators of {len(state['cuda'])} GPUs are in it, and here are {count} GPUs; expected as "
            f"many, or generators=False; under repdl.enable() no numbers are drawn on a GPU"
        )


def restore(state: State) -> None:
    """Let the generators go on where `capture` was called."""
    torch.default_generator.set_state(state["torch"])
    default_generator.set_state(state["repdl"]["state"])
    seeding._process.seeded = state["repdl"]["seeded"]
    np.random.set_state(_numpy(state["numpy"], torch.Tensor, torch.Tensor.numpy))
    random.setstate(state["python"])
    if "cuda" in state:
        for device, kept in enumerate(state["cuda"]):
            torch.cuda.set_rng_state(kept, device)


def fingerprint(state: State) -> tuple[Any, ...]:
    """The states of the generators on the CPU, for a comparison."""
    tensors = state["torch"], state["repdl"]["state"]
    words = tuple(np.asarray(kept).tobytes() for kept in state["numpy"]["state"].values())
    return (*(t.numpy().tobytes() for t in tensors), words, state["python"])


class Generators:
    """The default generators of torch, numpy, Python and RepDL as an object with a state, for programs that save by
    other means than `repdl.checkpoint.save`, which has them by itself.

    `state_dict` holds tensors, numbers and tuples, which `torch.load` takes with `weights_only=True`.
    """

    def state_dict(self) -> State:
        """The states of all of them."""
        return capture()

    def load_state_dict(self, state_dict: State) -> None:
        """Let them go on where `state_dict` was called.

        Raises:
            CheckpointError: if this process has no such generators; nothing changes.
        """
        check(state_dict)
        restore(state_dict)


def _set_numpy(generator: np.random.Generator, state: State) -> None:
    generator.bit_generator.state = state


_OWN: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    torch.Generator: (torch.Generator.get_state, torch.Generator.set_state),
    Generator: (Generator.get_state, Generator.set_state),
    np.random.Generator: (lambda generator: generator.bit_generator.state, _set_numpy),
    random.Random: (random.Random.getstate, random.Random.setstate),
}
"""How the state of a generator is read and set."""


def _of_type(name: str, generator: Any) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    for kind, ways in _OWN.items():
        if isinstance(generator, kind):
            return ways
    raise CheckpointError(
        f"checkpoint: {name} is {type(generator).__name__}, expected a generator of torch, repdl.random, numpy, Python"
    )


def get_state(name: str, generator: Any) -> Any:
    """The state of one generator."""
    return _of_type(name, generator)[0](generator)


def set_state(name: str, generator: Any, state: Any) -> None:
    """Let one generator go on from a state."""
    _of_type(name, generator)[1](generator, state)


__all__ = ["Generators", "State", "capture", "check", "fingerprint", "get_state", "restore", "set_state"]
