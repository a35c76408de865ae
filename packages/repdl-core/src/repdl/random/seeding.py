"""The default generator as a setting of the process: seeds, its state, and what depends on its being seeded."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.data import get_worker_info

from repdl.errors import UnsupportedError
from repdl.generators.generator import Generator, checked_seed, default_generator

__all__ = [
    "fork_rng",
    "get_state",
    "initial_seed",
    "initialises",
    "manual_seed",
    "seed",
    "seed_everything",
    "set_state",
    "worker_init_fn",
]


class _Process:
    seeded = False


_process = _Process()


def initialises(generator: Generator | None = None) -> bool:
    """Whether layers of RepDL draw their initial values here: with a generator, or once `manual_seed` was called.

    Otherwise torch's own initialisation draws them, from torch's generator, whose numbers depend on the machine.
    """
    return generator is not None or _process.seeded


def manual_seed(seed: int) -> Generator:
    """Go to the beginning of a seed, 0 to 2**64 - 1, with the default generator, and return that.

    From then on layers of RepDL draw their initial values from it, too.

    Raises:
        OutOfRangeError: if the seed is negative or too large; nothing changes.

    Contract: random v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.manual_seed.html
    """
    default_generator.manual_seed(checked_seed("manual_seed", seed))
    _process.seeded = True
    return default_generator


def seed() -> int:
    """`manual_seed` with a seed that the operating system draws, which is returned."""
    found = default_generator.seed()
    _process.seeded = True
    return found


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_state() -> torch.Tensor:
    """The state of the default generator, for `set_state`."""
    return default_generator.get_state()


def set_state(state: torch.Tensor) -> None:
    """Let the default generator go on where `get_state` was called.

    Raises:
        ArgumentError, DTypeError, ShapeError, OutOfRangeError: if `state` is none of a generator; nothing changes.
    """
    default_generator.set_state(state)


@contextmanager
def fork_rng(enabled: bool = True) -> Iterator[None]:
    """What the block draws, seeds and restores, the default generator has forgotten after it.

    Source: https://docs.pytorch.org/docs/stable/random.html#torch.random.fork_rng
    """
    if not enabled:
        yield
        return
    state, seeded = get_state(), _process.seeded
    try:
        yield
    finally:
        set_state(state)
        _process.seeded = seeded


def seed_everything(seed: int) -> int:
    """Seed `random`, numpy if it is imported, torch on all devices, and repdl; returns the seed.

    numpy's seeds have 32 bits: it gets the low ones.

    Raises:
        OutOfRangeError: if the seed is not 0 to 2**64 - 1; nothing changes.
    """
    seed = checked_seed("seed_everything", seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    torch.manual_seed(seed)
    manual_seed(seed)
    return seed


def worker_init_fn(worker_id: int) -> None:
    """For `DataLoader(worker_init_fn=...)`: numbers of its own for the default generator of each worker process.

    They depend on the seed that torch gives to the workers, as those of `torch` and `random` there do: another one
    each epoch, drawn by the loader's `generator`, or by torch's default one, which `seed_everything` seeds. To draw
    the same numbers whatever the number of workers, use `Generator(seed, stream=1 + index)` for sample `index`.

    Raises:
        UnsupportedError: outside of a worker process.
    """
    worker = get_worker_info()
    if worker is None:
        raise UnsupportedError(
            "worker_init_fn: called outside of a worker process; pass it to DataLoader(worker_init_fn=...)"
        )
    default_generator._set(Generator((worker.seed - worker.id) % 2**64).fork(worker.id).get_state().tolist())
