"""repdl.random.Generator: positions, states, children, and where a draw would differ from what its caller means."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from typing import Any

import pytest
import torch
from drawing import Drawn, DrawnAtImport
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from repdl import random
from repdl.errors import ArgumentError, DTypeError, OutOfRangeError, RepDLError, ShapeError, UnsupportedError
from repdl.generators import generator as generators
from repdl.generators.lock import ForkLock
from repdl.random import Generator


def test_generator__position_and_offset() -> None:
    generator = Generator(5, stream=3)
    assert generator.position(7).tolist() == [5, 3, 0] and generator.position(2).tolist() == [5, 3, 7]
    assert generator.get_state().tolist() == [5, 3, 9, 0]
    assert repr(generator) == "Generator(seed=5, stream=3, offset=9)"
    assert Generator(2**64 - 1).position(1).tolist() == [-1, 0, 0] and Generator(2**64 - 1).initial_seed() == 2**64 - 1


def test_generator__manual_seed_is_a_new_generator() -> None:
    generator = Generator(5, stream=3)
    generator.position(7), generator.spawn(1)
    assert generator.manual_seed(9) is generator
    assert torch.equal(generator.get_state(), Generator(9).get_state())


def test_generator__without_a_seed_is_the_same_in_every_process() -> None:
    assert Generator().initial_seed() == torch.Generator().initial_seed()


def test_generator__seed_of_the_system() -> None:
    generator = Generator()
    assert generator.seed() == generator.initial_seed() != generator.seed()


def test_generator__ten_and_ten_is_twenty() -> None:
    for count, draw in (
        (10, random.rand),
        (7, random.randn),
        (5, lambda n, generator: random.randint(9, (n,), generator=generator)),
    ):
        one, two = Generator(1), Generator(1)
        whole = draw(2 * count, generator=one)
        assert torch.equal(torch.cat([draw(count, generator=two), draw(count, generator=two)]), whole)
        assert torch.equal(one.get_state(), two.get_state())


def test_generator__children() -> None:
    """The words of plane 65535 that the contract names, computed by another program."""
    generator = Generator(5, stream=3)
    first = generator.spawn(2)
    assert [(g.initial_seed(), g.stream, g.offset) for g in first] == [
        (17887382706796959791, 117262979866132, 0),
        (2062631716765818435, 188796611858640, 0),
    ]
    generator.position(100)
    assert [g.initial_seed() for g in (*generator.spawn(1), *Generator(5, stream=3).spawn(3)[2:])] == 2 * [
        Generator(5, stream=3).spawn(3)[2].initial_seed()
    ]
    fork = generator.fork(0)
    assert (fork.initial_seed(), fork.stream) == (991645943338185036, 47993768586935)
    assert generator.get_state().tolist() == [5, 3, 100, 3]
    states = [
        tuple(g.get_state().tolist()) for g in (*Generator(0).spawn(500), *(Generator(0).fork(i) for i in range(500)))
    ]
    assert len(set(states)) == 1000


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, None])
def test_generator__bad_seed(seed: Any) -> None:
    generator = Generator(3)
    before = generator.get_state(), random.get_state()
    for function in (generator.manual_seed, random.manual_seed, random.seed_everything):
        with pytest.raises((OutOfRangeError, ArgumentError), match=r"seed is .*expected an integer"):
            function(seed)
    assert torch.equal(generator.get_state(), before[0]) and torch.equal(random.get_state(), before[1])
    assert torch.initial_seed() != seed


def test_generator__bad_arguments_change_nothing() -> None:
    generator = Generator(3)
    state = generator.get_state()
    calls: list[tuple[Any, type[RepDLError], str]] = [
        (lambda: Generator(0, stream=2**48), OutOfRangeError, "stream is 281474976710656, expected"),
        (lambda: Generator(0, stream=-1), OutOfRangeError, "stream is -1"),
        (lambda: generator.manual_seed(1, stream=-1), OutOfRangeError, "stream is -1"),
        (lambda: generator.set_state(state[:3]), ShapeError, r"state.shape is \(3,\), expected \(4,\)"),
        (lambda: generator.set_state(state.to(torch.int32)), DTypeError, "state.dtype is int32"),
        (lambda: generator.set_state(torch.tensor([0, 2**48, 0, 0])), OutOfRangeError, r"state\[1\], the stream"),
        (lambda: generator.set_state(torch.tensor([0, 0, -1, 0])), OutOfRangeError, r"state\[2\], the offset"),
        (lambda: generator.set_state(torch.tensor([0, 0, 0, -1])), OutOfRangeError, r"state\[3\], the spawned"),
        (lambda: generator.set_state([0, 0, 0, 0]), ArgumentError, "expected a tensor that get_state returned"),
        (lambda: generator.position(-1), OutOfRangeError, "count is -1"),
        (lambda: generator.spawn(-1), OutOfRangeError, "n is -1"),
        (lambda: generator.fork(-1), OutOfRangeError, "worker_id is -1"),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()
        assert torch.equal(generator.get_state(), state)


def test_generator__end_of_a_stream() -> None:
    generator = Generator(0).set_state(torch.tensor([0, 0, 2**63 - 11, 0]))
    random.rand(4, generator=generator)
    state = generator.get_state()
    with pytest.raises(
        OutOfRangeError, match="count is 7, expected 0 to 6, as the generator's offset is 9223372036854775801"
    ):
        random.rand(7, generator=generator)
    assert torch.equal(generator.get_state(), state)
    random.rand(6, generator=generator)
    assert generator.offset == 2**63 - 1


def test_generator__copies_and_pickles_go_on_alone() -> None:
    generator = Generator(5, stream=3)
    generator.position(4)
    others = [copy.copy(generator), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    assert all(other.position(3).tolist() == [5, 3, 4] for other in others) and generator.offset == 4
    pair = copy.deepcopy([generator, generator])
    assert pair[0] is pair[1]


def test_generator__threads_draw_nothing_twice() -> None:
    generator, found = Generator(0), []

    def draw() -> None:
        found.extend(int(generator.position(3)[2]) for _ in range(4000))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(found) == list(range(0, 48000, 3))


def test_generator__of_torch_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"rand: generator is torch._C.Generator, expected a repdl.random.Generator"
    ):
        random.rand(2, generator=torch.Generator())  # type: ignore[arg-type]


def test_seeding__the_default_generator() -> None:
    assert not random.initialises() and random.initialises(Generator())
    assert random.manual_seed(4) is random.default_generator and random.initialises()
    first, state = random.rand(3), random.get_state()
    second = random.rand(3)
    random.set_state(state)
    assert torch.equal(random.rand(3), second) and random.initial_seed() == 4
    with random.fork_rng():
        random.manual_seed(4)
        assert torch.equal(random.rand(3), first)
    with random.fork_rng(enabled=False):
        random.rand(3)
    assert random.get_state().tolist() == [4, 0, 9, 0]


def test_seeding__fork_rng_keeps_who_initialises() -> None:
    with random.fork_rng():
        random.manual_seed(1)
        assert random.initialises()
    assert not random.initialises()


def test_seeding__everything() -> None:
    import random as pythons

    import numpy as np

    found = []
    with torch.random.fork_rng():
        for _ in range(2):
            assert random.seed_everything(2**40 + 1) == 2**40 + 1
            found.append((pythons.random(), float(np.random.rand()), float(torch.rand(())), float(random.rand(()))))
    assert found[0] == found[1] and len(set(found[0])) == 4


# Recomputation


def dropped(x: torch.Tensor, generator: Generator | None = None) -> torch.Tensor:
    for _ in range(2):
        x = x * random.bernoulli_(torch.empty_like(x), 0.5, generator=generator) * 2
    return x * x


def gradient(function: Any, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    y = function(x)
    random.rand(5)  # so that the generator is elsewhere by the time of the backward pass
    y.sum().backward()
    assert x.grad is not None
    return torch.stack([y.detach(), x.grad])


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint__restores_the_default_generator(use_reentrant: bool) -> None:
    x = torch.arange(1.0, 41.0)

    def inner(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(dropped, dropped(x), use_reentrant=use_reentrant) * dropped(x)

    def nested(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(inner, x, use_reentrant=use_reentrant)

    def twice(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(dropped, checkpoint(dropped, x, use_reentrant=use_reentrant), use_reentrant=use_reentrant)

    for kept, plain in ((nested, lambda x: dropped(dropped(x)) * dropped(x)), (twice, lambda x: dropped(dropped(x)))):
        states, results = [], []
        for function in (kept, plain):
            random.manual_seed(3)
            results.append(gradient(function, x))
            states.append(random.get_state())
        assert torch.equal(*results) and torch.equal(*states)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint__what_would_differ_raises(use_reentrant: bool) -> None:
    x, own = torch.ones(20), Generator(1)
    options: dict[str, Any] = {"use_reentrant": use_reentrant}
    with pytest.raises(UnsupportedError, match="a draw during a backward pass"):
        gradient(lambda x: checkpoint(dropped, x, preserve_rng_state=False, **options), x)
    with pytest.raises(
        UnsupportedError, match="expected preserve_rng_state=True and the default generator; .*save_positions"
    ):
        gradient(lambda x: checkpoint(dropped, x, own, **options), x)
    # ... also after a region that was restored, in the same backward pass.
    with pytest.raises(UnsupportedError, match="a draw during a backward pass"):
        gradient(
            lambda x: checkpoint(dropped, checkpoint(dropped, x, preserve_rng_state=False, **options), **options), x
        )


def test_checkpoint__a_recomputation_that_restores_its_own_generator() -> None:
    class Recomputed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, generator: Generator) -> torch.Tensor:
            ctx.generator, ctx.state = generator, generator.get_state()
            return x * random.rand(len(x), generator=generator)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
            return grad * random.rand(len(grad), generator=ctx.generator.set_state(ctx.state)), None

    x = torch.ones(5, requires_grad=True)
    y = Recomputed.apply(x, Generator(1))
    y.sum().backward()
    assert torch.equal(x.grad, y)  # type: ignore[arg-type]


def test_checkpoint__torchs_states_carry_ours() -> None:
    random.manual_seed(0)
    state = torch.get_rng_state()
    first = random.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(random.rand(3), first)
    with torch.random.fork_rng():
        random.rand(3)
    assert random.default_generator.offset == 3
    stream = io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    torch.set_rng_state(torch.load(stream, weights_only=True))
    assert torch.equal(random.rand(3), first)
    torch.set_rng_state(state.clone())  # torch's alone
    assert random.default_generator.offset == 3


# torch.compile, torch.func


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile__draws_anew_with_the_bits_of_eager(backend: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * random.rand(7) + random.randn_like(x)

    torch._dynamo.reset()
    results = []
    for call in (function, torch.compile(function, backend=backend, fullgraph=True)):
        random.manual_seed(2)
        results.append([call(torch.ones(7)) for _ in range(3)])
        assert random.get_state().tolist() == [2, 0, 42, 0]
    assert all(torch.equal(a, b) for a, b in zip(*results)) and not torch.equal(results[1][0], results[1][1])
    random.set_state(torch.tensor([2, 0, 2**63 - 8, 0]))
    with pytest.raises(OutOfRangeError, match="as the generator's offset is"):
        torch.compile(function, backend=backend, fullgraph=True)(torch.ones(7))


def test_func__vmap_says_that_all_examples_would_share_a_draw() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + random.rand(3)

    x = torch.zeros(4, 3)
    for randomness in ("error", "different"):
        with pytest.raises(UnsupportedError, match="expected vmap"):
            torch.vmap(function, randomness=randomness)(x)
    random.manual_seed(0)
    expected = random.rand(3)
    random.manual_seed(0)
    assert torch.equal(torch.vmap(function, randomness="same")(x), expected.expand(4, 3))
    random.manual_seed(0)
    grad = torch.func.grad(lambda x: (x * random.rand(3)).sum())(torch.zeros(3))
    assert torch.equal(grad, expected)


def test_fake__nothing_is_drawn() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    random.manual_seed(0)
    with FakeTensorMode():
        assert random.rand(3).shape == (3,)
    random.uniform_(torch.empty(3, device="meta"))
    assert random.default_generator.offset == 0


# Processes


def loaded(data: Drawn, workers: int, init: Any = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.cat(list(DataLoader(data, 2, num_workers=workers, worker_init_fn=init, generator=generator)))


def test_workers__default_generator() -> None:
    for outside in (None, Generator(1)):
        with pytest.raises(UnsupportedError, match="a draw in a worker process of a DataLoader"):
            loaded(Drawn(outside), 1)
    # Where the first two generators are made anew, and the last is a copy.
    for data in (DrawnAtImport(), Drawn(None), Drawn(Generator(1))):
        with pytest.raises(UnsupportedError, match="a draw in a worker process of a DataLoader"):
            list(DataLoader(data, 2, num_workers=1, multiprocessing_context="spawn"))
    first = loaded(Drawn(), 2, random.worker_init_fn)
    assert len(first.unique(dim=0)) == 8 and torch.equal(first, loaded(Drawn(), 2, random.worker_init_fn))
    assert torch.equal(loaded(Drawn(of_index=True), 0), loaded(Drawn(of_index=True), 2))
    with pytest.raises(UnsupportedError, match="outside of a worker process"):
        random.worker_init_fn(0)


def _child(queue: Any) -> None:
    queue.put(random.rand(3).tolist())


def test_workers__a_fork_while_another_thread_draws() -> None:
    """The child would wait for the lock for ever."""
    context, queue = multiprocessing.get_context("fork"), multiprocessing.get_context("fork").Queue()
    with generators._lock:
        child = context.Process(target=_child, args=(queue,))
        child.start()
        assert len(queue.get(timeout=60)) == 3
    child.join()


def test_workers__a_forked_child_goes_on_from_the_same_state() -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    random.manual_seed(0)
    child = context.Process(target=_child, args=(queue,))
    child.start()
    found = queue.get(timeout=60)
    child.join()
    assert found == random.rand(3).tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_lock__is_open_in_a_forked_child() -> None:
    lock, held, done = ForkLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits
        with lock:
            os._exit(0)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
