"""Generators: where in the stream of numbers the next draw begins (contract/v1/random.md).

A draw depends on its position alone, [seed, stream, offset]; a generator is a position and a counter of
the generators that were spawned from it, in one small tensor, so that `torch.compile` sees a draw as what
it is: a change of that tensor.
"""

from __future__ import annotations

import os
import secrets
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import _C
from torch.utils.data import get_worker_info

from repdl import registry
from repdl.callcache import record_draw
from repdl.errors import ArgumentError, UnsupportedError, check_dtype, check_range, check_size
from repdl.generators.lock import ForkLock
from repdl.registry.arguments import as_int

SEEDS, STREAMS, NUMBERS = 2**64, 2**48, 2**63
DEFAULT_SEED = 67280421310721
"""That of a new `torch.Generator`: the same in every process."""
SPAWNED, FORKED = 0, 2**60
"""The first block of numbers in the plane of `spawn`, and of `fork`."""
_PLANE = 65535
_SEED, _STREAM, _OFFSET, _SPAWNS, _TASK = range(5)  # what the elements of a state are; the last is ours alone
_NO_TASK = -1
_MODES = _C._TorchDispatchModeKey

_lock = ForkLock()
_library = torch.library.Library("repdl", "FRAGMENT")


def _advance(now: NDArray[np.int64], count: int) -> torch.Tensor:
    """The position that a state says, which `count` draws then follow. Compiled code calls this too, at its run."""
    check_capture()
    task = _C._current_graph_task_id()
    with _lock:
        if task not in (_NO_TASK, int(now[_TASK])):
            raise UnsupportedError(
                "repdl.random: a draw during a backward pass, of a generator whose state is not that of the forward "
                "pass, so a recomputation (torch.utils.checkpoint) would draw other numbers than the forward did; "
                "expected preserve_rng_state=True and the default generator; where torch.compile is around the "
                "checkpoint, or for another generator, context_fn=repdl.random.save_positions"
            )
        offset = int(now[_OFFSET])
        check_left(count, offset)
        position = torch.from_numpy(now[:_SPAWNS].copy())
        now[_OFFSET] = offset + count
    return position


def check_capture() -> None:
    """Raise while a CUDA graph is captured: each replay would draw the same numbers."""
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise UnsupportedError(
            "repdl.random: a draw while a CUDA graph is captured, whose replays would all have the same numbers; "
            "expected it outside of the capture, into a tensor that the graph reads"
        )


def _worker() -> int:
    """This process if it is a worker of a DataLoader at work, else 0: what a worker makes or seeds when it imports the
    program ("spawn", "forkserver") is the same in each."""
    return 0 if get_worker_info() is None else os.getpid()


def check_left(count: int, offset: int) -> None:
    """Raise unless a stream has that many numbers left."""
    check_range(
        "repdl.random",
        0 <= count <= NUMBERS - 1 - offset,
        lambda: (
            f"count is {count}, expected 0 to {NUMBERS - 1 - offset}, as the generator's offset is {offset}; go on "
            f"with a generator of another stream (spawn)"
        ),
    )


_library.define("advance(Tensor(a!) state, SymInt count) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_library.impl("advance", lambda state, count: _advance(state.numpy(), count), "CPU")
torch.library.register_fake("repdl::advance", lambda state, count: state.new_empty(3), lib=_library)


class Generator:
    """Numbers of a seed and a stream, one after the other: the same on every machine and device.

    Args:
        seed: 0 to 2**64 - 1. None is that of a new `torch.Generator`, the same in every process.
        stream: 0 to 2**48 - 1. Draws of different streams have nothing in common: `Generator(seed,
            stream=1 + i)` for sample i of a data set gives it the same numbers whoever loads it.

    Raises:
        OutOfRangeError: if seed or stream is negative or too large.

    A draw of n elements takes n numbers, so drawing 10 elements and then 10 equals drawing 20. Draws of
    several threads from one generator do not overlap. A copy, or what is unpickled, goes on from the same
    state on its own, and so does a child that `os.fork` makes, as torch's generators do; but in a worker
    process of a `DataLoader` a generator from outside raises, as each worker would draw the same numbers:
    pass `worker_init_fn=repdl.random.worker_init_fn`, or call `fork` or `manual_seed` there.

    Contract: random v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.Generator.html
    """

    def __init__(self, seed: int | None = None, *, stream: int = 0) -> None:
        self._hold([0, 0, 0, 0, _NO_TASK])
        self.manual_seed(DEFAULT_SEED if seed is None else seed, stream=stream)

    def _hold(self, numbers: list[int]) -> None:
        with torch.inference_mode(False), torch.utils._python_dispatch._disable_current_modes():
            self._state = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        self._numbers = self._state.numpy()  # the same memory
        self._process = _worker()

    def _set(self, numbers: list[int], task: int | None = None) -> None:
        """Change the state. In a backward pass this makes draws possible."""
        with _lock:
            self._numbers[:] = [*numbers, _C._current_graph_task_id() if task is None else task]
            self._process = _worker()

    def manual_seed(self, seed: int, *, stream: int = 0) -> Generator:
        """Go to the beginning of a seed, as `Generator(seed, stream=stream)`; returns the generator.

        Raises:
            OutOfRangeError: as the constructor, with the state unchanged.
        """
        seed, stream = checked_seed("Generator", seed), as_int("Generator", "stream", stream)
        check_range(
            "Generator", 0 <= stream < STREAMS, lambda: f"stream is {stream}, expected an integer from 0 to 2**48 - 1"
        )
        self._set([_signed(seed), stream, 0, 0])
        return self

    def seed(self) -> int:
        """Go to a seed that the operating system draws, another one at each call, and return it."""
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed, 0 to 2**64 - 1."""
        return int(self._numbers[_SEED]) % SEEDS

    @property
    def stream(self) -> int:
        """The stream, 0 to 2**48 - 1."""
        return int(self._numbers[_STREAM])

    @property
    def offset(self) -> int:
        """How many numbers were drawn."""
        return int(self._numbers[_OFFSET])

    @property
    def device(self) -> torch.device:
        """The CPU, where the state is; draws are the same on every device."""
        return torch.device("cpu")

    def get_state(self) -> torch.Tensor:
        """The state, for `set_state`: an int64 tensor of 4 elements on the CPU."""
        with _lock:
            return torch.from_numpy(self._numbers[:_TASK].copy())

    def set_state(self, state: torch.Tensor) -> Generator:
        """Go on where `get_state` was called; returns the generator.

        Raises:
            ArgumentError, DTypeError, ShapeError, OutOfRangeError: if `state` is none of a generator, with the
                state unchanged.
        """
        self._set(_checked_state("set_state", state))
        return self

    def position(self, count: int) -> torch.Tensor:
        """`[seed, stream, offset]` of a draw of `count` elements; the generator goes on after them.

        Raises:
            OutOfRangeError: if `count` is negative, or the stream has not that many numbers left.
            UnsupportedError: in a backward pass, unless `torch.utils.checkpoint` restored the state; in a worker
                of a `DataLoader`, of a generator from outside; under `torch.vmap`; in the capture of a CUDA graph.
        """
        if torch.compiler.is_compiling():
            return cast(torch.Tensor, torch.ops.repdl.advance(self._state, count))
        check_transforms()
        if get_worker_info() is not None and self._process != os.getpid():
            raise UnsupportedError(
                "repdl.random: a draw in a worker process of a DataLoader, of a generator from outside of it, so each "
                "worker would draw the same numbers; expected DataLoader(worker_init_fn=repdl.random.worker_init_fn), "
                "generator.fork(worker_id), or one made from the sample's index, Generator(seed, stream=1 + index)"
            )
        if _C._len_torch_dispatch_stack():
            if _C._get_dispatch_mode(_MODES.FAKE) is not None:  # nothing is computed
                return torch.empty(3, dtype=torch.int64)
            return cast(torch.Tensor, torch.ops.repdl.advance(self._state, count))
        position = _advance(self._numbers, count)
        if self is default_generator:
            record_draw(position, self.position, count)
        return position

    def spawn(self, n: int) -> list[Generator]:
        """`n` generators of seeds and streams of their own, others at each call; draws here stay what they are.

        Raises:
            OutOfRangeError: if `n` is negative.
        """
        n = as_int("spawn", "n", n)
        check_range("spawn", n >= 0, lambda: f"n is {n}, expected 0 or more")
        with _lock:
            first = int(self._numbers[_SPAWNS])
            check_range("spawn", first + n <= FORKED, lambda: f"{first} + {n} generators, expected 2**60 at most")
            self._numbers[_SPAWNS] = first + n
        return [self._child(SPAWNED + i) for i in range(first, first + n)]

    def fork(self, worker_id: int) -> Generator:
        """The generator of a worker, which depends on seed, stream and `worker_id` alone; nothing changes here.

        Raises:
            OutOfRangeError: if `worker_id` is negative, or 2**60 or more.
        """
        worker_id = as_int("fork", "worker_id", worker_id)
        check_range(
            "fork",
            0 <= worker_id < FORKED,
            lambda: f"worker_id is {worker_id}, expected an integer from 0 to 2**60 - 1",
        )
        return self._child(FORKED + worker_id)

    def _child(self, block: int) -> Generator:
        """Of four words: the seed, high word first, and the stream, whose low half is the high half of the last."""
        position = torch.tensor([*self._numbers[:_OFFSET].tolist(), 4 * block], device="cpu")
        found = registry.functions.random_words(torch.empty(4, dtype=torch.int32, device="cpu"), position, _PLANE)
        a, b, c, d = (word % 2**32 for word in found.tolist())
        return Generator(a << 32 | b, stream=c << 16 | d >> 16)

    def __getstate__(self) -> dict[str, Any]:
        with _lock:
            return {"numbers": self._numbers[:_TASK].tolist(), "process": self._process}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self._hold([*kept["numbers"], _NO_TASK])
        self._process = kept["process"]  # a worker process knows by it that it did not make the generator

    def __copy__(self) -> Generator:
        made = Generator.__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        return memo.setdefault(id(self), self.__copy__())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.initial_seed()}, stream={self.stream}, offset={self.offset})"


def checked_seed(op: str, seed: Any) -> int:
    """A seed, from 0 to 2**64 - 1; raises otherwise."""
    seed = as_int(op, "seed", seed)
    check_range(op, 0 <= seed < SEEDS, lambda: f"seed is {seed}, expected an integer from 0 to 2**64 - 1")
    return seed


def _checked_state(op: str, state: Any) -> list[int]:
    if not isinstance(state, torch.Tensor):
        raise ArgumentError(f"{op}: state is {type(state).__name__}, expected a tensor that get_state returned")
    check_dtype(op, (torch.int64,), state=state)
    check_size(op, "state.shape", tuple(state.shape), (_TASK,), "[seed, stream, offset, spawned]")
    numbers: list[int] = state.tolist()
    for name, index, most in (
        ("stream", _STREAM, STREAMS - 1),
        ("offset", _OFFSET, NUMBERS - 1),
        ("spawned", _SPAWNS, FORKED),
    ):
        now = numbers[index]
        check_range(op, 0 <= now <= most, f"state[{index}], the {name}, is {now}, expected 0 to {most}")
    return numbers


def _signed(seed: int) -> int:
    """The 64 bits of a seed, as an int64."""
    return (seed ^ 1 << 63) - (1 << 63)


def check_transforms() -> None:
    """Raise where `torch.vmap` would give each example the same draw, which nobody asked for."""
    if _C._functorch.peek_interpreter_stack() is None:
        return
    for level in _C._functorch.get_interpreter_stack() or ():
        if level.key() == _C._functorch.TransformType.Vmap:
            kind = _C._functorch.CVmapInterpreterPtr(level).randomness()
            if kind != _C._functorch.RandomnessType.Same:
                raise UnsupportedError(
                    f"repdl.random: a draw under torch.vmap with randomness={str(kind).rpartition('.')[2].lower()!r}, "
                    f"expected vmap(..., randomness='same'), one draw for all examples; else draw before the vmap"
                )


default_generator = Generator()
"""The generator of the process: that of every function and layer without `generator=`."""


def chosen(op: str, generator: Any) -> Generator:
    """`generator`, or the default one for None.

    Raises:
        ArgumentError: if it is no generator of repdl.
    """
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise ArgumentError(
            f"{op}: generator is {type(generator).__module__}.{type(generator).__name__}, expected a "
            f"repdl.random.Generator or None; torch's draws depend on the machine"
        )
    return generator


__all__ = ["Generator", "default_generator"]
